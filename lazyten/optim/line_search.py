"""A line search for the strong Wolfe conditions (J. Nocedal and S. Wright, Numerical Optimization,
algorithms 3.5 and 3.6): enough less loss, and a slope that is small against the first."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from lazyten.frontend.tensor import Tensor

DECREASE, CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """A point on the line: how far along the direction, the loss and its gradient there, and the
    slope along the direction."""

    length: float
    loss: float
    gradient: Tensor
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(at: Evaluate, start: Point, length: float, most: int,
                 width: float) -> tuple[Point, int]:
    """A point that satisfies the conditions, or the best that was found, and how often the loss was
    evaluated: at most once more than `most`. A bracket of less than `width` is not looked into."""
    before, here, evaluations = start, at(length), 1
    bracket: list[Point] = []
    while evaluations <= most:
        if _too_high(here, start) or (evaluations > 2 and here.loss >= before.loss):
            bracket = [before, here]
        elif abs(here.slope) <= -CURVATURE * start.slope:
            return here, evaluations
        elif here.slope >= 0:
            bracket = [before, here]
        if bracket:
            break
        bounds = (here.length + 0.01 * (here.length - before.length), here.length * 10)
        before, here = here, at(cubic_minimum(before, here, bounds))
        evaluations += 1
    return _narrowed(at, start, bracket or [start, here], evaluations, most, width)


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + DECREASE * point.length * start.slope


def _narrowed(at: Evaluate, start: Point, bracket: list[Point], evaluations: int, most: int,
              width: float) -> tuple[Point, int]:
    """Make a bracket around a good point smaller, until one is found."""
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    stuck = False
    while evaluations <= most:
        ends = [point.length for point in bracket]
        if abs(ends[1] - ends[0]) < width:
            break
        length, stuck = _inside(cubic_minimum(bracket[0], bracket[1]), min(ends), max(ends), stuck)
        here = at(length)
        evaluations += 1
        if _too_high(here, start) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = abs(here.slope) <= -CURVATURE * start.slope
        if not done and here.slope * (bracket[high].length - bracket[low].length) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = here
        if done:
            break
    return bracket[low], evaluations


def _inside(length: float, least: float, most: float, stuck: bool) -> tuple[float, bool]:
    """A length that is not too near to an end, if the one before was, too, and whether it is."""
    margin = 0.1 * (most - least)
    if min(most - length, length - least) >= margin:
        return length, False
    if stuck or length >= most or length <= least:
        nearer_to_most = abs(length - most) < abs(length - least)
        return (most - margin if nearer_to_most else least + margin), False
    return length, True


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic with the losses and slopes of two points is least, within bounds."""
    least, most = bounds or (min(a.length, b.length), max(a.length, b.length))
    first = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = first**2 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    second = math.sqrt(square)
    if a.length <= b.length:
        share = (b.slope + second - first) / (b.slope - a.slope + 2 * second)
        found = b.length - (b.length - a.length) * share
    else:
        share = (a.slope + second - first) / (a.slope - b.slope + 2 * second)
        found = a.length - (a.length - b.length) * share
    return min(max(found, least), most)
