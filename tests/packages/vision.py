"""torchvision: data through transforms, networks trained, boxes compared, augmentations of v2."""
import json

import numpy as np
import torch
from filled import filled, labels, numbers, trained
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import models, ops, transforms, utils
from torchvision.transforms import v2

torch.set_default_dtype(torch.float64)
found: dict[str, object] = {}


class Pictures(Dataset):
    """Noise of a class each, as images of Pillow."""

    def __init__(self, transform: object) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[object, int]:
        pixels = np.random.default_rng(index).integers(256, size=(40, 48, 3))
        return self.transform(Image.fromarray(pixels.astype(np.uint8))), index % 4


steps = transforms.Compose([
    transforms.Resize(36), transforms.CenterCrop(32), transforms.ToTensor(),
    transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.25))])
batches = [(x.double(), y) for x, y in DataLoader(Pictures(steps), batch_size=4)]
found["batches"] = [(x.mean().item(), y.tolist()) for x, y in batches]
found["grid"] = utils.make_grid(batches[0][0], nrow=2, normalize=True).mean().item()

for name in ("resnet18", "mobilenet_v2", "squeezenet1_1"):
    net = filled(getattr(models, name)(num_classes=4))
    for layer in net.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    x, y = batches[0]
    found[name] = trained(net, lambda net=net, x=x, y=y: torch.nn.functional.cross_entropy(
        net(x), y), 2)

picture = torch.sigmoid(numbers(3, 20, 24))
for change in (v2.Resize((8, 9)), v2.RandomHorizontalFlip(1.0), v2.CenterCrop(6),
               v2.Normalize([0.5] * 3, [0.2] * 3), transforms.GaussianBlur(3, (1.0, 1.0)),
               v2.Compose([v2.ToImage(), v2.Grayscale(), v2.ToDtype(torch.float64, scale=True)]),
               transforms.RandomInvert(1.0), transforms.Pad(2)):
    changed = change(picture)
    found[str(change)] = [list(changed.shape), changed.mean().item()]
boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [1.0, 1.0, 11.0, 12.0], [20.0, 20.0, 30.0, 31.0]])
found["iou"] = ops.generalized_box_iou(boxes, boxes).tolist()
found["focal"] = ops.sigmoid_focal_loss(numbers(4, 3), labels(2, 4, 3).double(),
                                        reduction="mean").item()
print(json.dumps(found))
