"""Labels of classes: of every integer type, inside and outside, for one_hot and each loss."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyten as lt
from lazyten.nn import functional as F

CLASSES = 300
TAKING_LABELS: dict[str, Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = {
    "one_hot": lambda scores, labels: F.one_hot(labels, scores.shape[-1]),
    "cross_entropy": F.cross_entropy,
    "nll_loss": F.nll_loss,
    "cross_entropy, smoothed": lambda scores, labels: F.cross_entropy(
        scores, labels, label_smoothing=0.1),
    "multi_margin_loss": F.multi_margin_loss,
    "multilabel_margin_loss": lambda scores, labels: F.multilabel_margin_loss(
        scores, labels.long().unsqueeze(1).expand(scores.shape)),
}


def scores(classes: int, device: str = "cpu") -> lt.Tensor:
    values = np.random.default_rng(0).normal(size=(2, classes)).astype(np.float32)
    return lt.tensor(values, device=device)


@pytest.mark.few(28)
@pytest.mark.parametrize("dtype", [lt.uint8, lt.int8, lt.int16, lt.uint16, lt.int32, lt.uint64],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("name", TAKING_LABELS)
def test_labels_of_a_narrow_type_name_one_of_many_classes(name: str, dtype: lt.DType,
                                                          device: str) -> None:
    take, x = TAKING_LABELS[name], scores(CLASSES, device)
    labels = lt.tensor([5, 99], device=device)
    np.testing.assert_array_equal(take(x, labels.to(dtype)).numpy(), take(x, labels).numpy())


@pytest.mark.parametrize("label", [-2, 3, 300])  # -1 and -100 mean something to some
@pytest.mark.parametrize("name", TAKING_LABELS)
def test_a_label_outside_the_classes_is_an_error_once_it_is_computed(
        name: str, label: int, device: str) -> None:
    take = TAKING_LABELS[name]
    result = take(scores(3, device), lt.tensor([1, label], device=device))
    operation = name.partition(",")[0]
    with pytest.raises(lt.IndexingError, match=rf"{operation}: label {label} is outside axis 1"):
        result.realize()


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss", "cross_entropy, smoothed",
                                  "multi_margin_loss"])
def test_no_label_is_inside_of_no_classes(name: str) -> None:
    with pytest.raises(lt.IndexingError, match="has size 0; no label is inside"):
        TAKING_LABELS[name](scores(0), lt.tensor([0, 1]))


def test_the_mean_over_no_classes_is_nan() -> None:
    for smoothing in (0.0, 0.1):
        loss = F.cross_entropy(scores(0), scores(0), label_smoothing=smoothing)
        assert np.isnan(loss.item())
