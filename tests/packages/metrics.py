"""torchmetrics: scores of classes, numbers, images and words, batch by batch."""
import json

import torch
import torchmetrics as tm
from filled import labels, numbers

torch.set_default_dtype(torch.float64)
given, true = torch.softmax(numbers(16, 5), -1), labels(5, 16)
of_classes = {"task": "multiclass", "num_classes": 5}
found: dict[str, object] = {}
for kind in (tm.Accuracy, tm.F1Score, tm.AUROC, tm.ConfusionMatrix, tm.AveragePrecision,
             tm.CohenKappa, tm.MatthewsCorrCoef, tm.CalibrationError, tm.JaccardIndex):
    metric = kind(**of_classes)
    for rows in (slice(0, 9), slice(9, 16)):
        metric.update(given[rows], true[rows])
    found[kind.__name__] = metric.compute().tolist()
for metric in (tm.MeanSquaredError(), tm.R2Score(), tm.PearsonCorrCoef(), tm.SpearmanCorrCoef()):
    found[type(metric).__name__] = metric(given[:, 0], given[:, 1]).item()
found["ssim"] = tm.StructuralSimilarityIndexMeasure(data_range=1.0)(
    torch.sigmoid(numbers(2, 3, 24, 24)), torch.sigmoid(numbers(2, 3, 24, 24, seed=1))).item()
found["bleu"] = tm.text.BLEUScore()(["the cat is on the mat"], [["a cat is on the mat"]]).item()
found["perplexity"] = tm.text.Perplexity()(numbers(2, 4, 5), labels(5, 2, 4)).item()
print(json.dumps(found))
