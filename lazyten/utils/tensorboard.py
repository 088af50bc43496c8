"""`lt.utils.tensorboard`: PyTorch's writer for TensorBoard, which lazyten refuses."""
from __future__ import annotations

from lazyten.pytorch.refusals import refused

globals().update(refused(
    "utils.tensorboard", "lazyten writes no event files; tensorboardX.SummaryWriter does, of "
    "numbers and NumPy arrays, such as loss.item() and x.numpy(), and matplotlib draws curves",
    "FileWriter", "RecordWriter", "SummaryWriter"))
