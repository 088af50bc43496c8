"""Timers of statements, by a clock that the tests move."""
from __future__ import annotations

import pytest

import lazyten as lt
from lazyten.testing import watch_kernels
from lazyten.utils.benchmark import Compare, Measurement, TaskSpec, Timer, select_unit


class Clock:
    """Each look at it is a second later, and what a statement adds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_run_takes_what_the_statement_takes() -> None:
    clock = Clock()
    found = Timer("clock.now += 2", timer=clock, globals={"clock": clock}).timeit(5)
    assert found.raw_times == [10] and found.number_per_run == 5 and found.mean == 2
    assert "2.00 s" in repr(found) and "5 runs" in repr(found)


def test_setup_is_run_before_and_its_names_stay_inside() -> None:
    names = {"seen": []}
    Timer("seen.append(step)", setup="step = 3", globals=names).timeit(2)
    assert names == {"seen": [3] * 4}  # two of them to warm up


@pytest.mark.parametrize("statement", ["x.exp()", "y = x.exp()", "[{'a': x.exp()}]"])
def test_what_a_statement_gives_is_computed_in_its_time(statement: str,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    import lazyten.utils.benchmark as benchmark
    computed: list[lt.Tensor] = []
    monkeypatch.setattr(benchmark, "realize", lambda *tensors: computed.extend(tensors))
    x = lt.ones(3)
    Timer(statement, globals={"x": x}).timeit(3)
    assert len([t for t in computed if t is not x]) == 5  # each run's, and of two that warm up


@pytest.mark.parametrize("statement", ["y = x @ x", "kept.append(x @ x)", "x.mul_(2)", "x[0] = 3",
                                       "optimizer.step()", "layer(x).sum().backward()"])
def test_each_run_computes_what_it_leaves(statement: str) -> None:
    x, kept, layer = lt.ones(2, 2), [], lt.nn.Linear(2, 2)
    layer(x).sum().backward()
    names = {"x": x, "kept": kept, "layer": layer,
             "optimizer": lt.optim.SGD(layer.parameters(), lr=0.1)}
    lt.realize(x, *layer.parameters(), *(p.grad for p in layer.parameters()))
    timer = Timer(statement, globals=names)
    with watch_kernels() as once:
        timer._timed(1)
    with watch_kernels() as seen:
        timer._timed(5)
    assert len(once) > 0 and len(seen) >= 5


def test_ranges_run_for_as_long_as_asked() -> None:
    clock = Clock()
    timer = Timer("clock.now += 0.001", timer=clock, globals={"clock": clock})
    told: list[int] = []
    blocked = timer.blocked_autorange(lambda number, taken: told.append(number), min_run_time=1.0)
    assert 1 <= sum(blocked.raw_times) < 1.1 and blocked.median == pytest.approx(1e-3)
    assert told == [blocked.number_per_run] * len(blocked.raw_times) and not blocked.has_warnings
    adaptive = timer.adaptive_autorange(min_run_time=0.5)
    assert len(adaptive.raw_times) >= 4 and 0.5 <= sum(adaptive.raw_times) < 1


def test_the_number_of_threads_is_that_of_the_runs_alone() -> None:
    before = lt.get_num_threads()
    seen: list[int] = []
    Timer("seen.append(f())", globals={"seen": seen, "f": lt.get_num_threads},
          num_threads=1).timeit(1)
    assert set(seen) == {1} and lt.get_num_threads() == before


def test_measurements_have_medians_and_ranges() -> None:
    found = Measurement(2, [2, 4, 6, 8, 20], TaskSpec("f()", label="f", sub_label="small"))
    assert (found.times, found.median, found.iqr) == ([1, 2, 3, 4, 10], 3, 2)
    assert found.has_warnings and found.title == "f: small" and found.label == "f"
    assert select_unit(3e-5) == ("us", 1e-6) and select_unit(5)[0] == "s"
    with pytest.raises(AttributeError, match="colour"):
        _ = found.colour


def test_tables_have_a_row_and_a_column_for_each_task() -> None:
    def measured(row: str, column: str, seconds: float) -> Measurement:
        return Measurement(1, [seconds], TaskSpec("f()", label="f", sub_label=row,
                                                  description=column))

    table = Compare([measured("small", "old", 2e-6), measured("large", "old", 4e-6),
                     measured("large", "new", 3e-6), measured("large", "new", 5e-6)])
    lines = str(table).splitlines()
    assert " f " in lines[0] and lines[1].split("|")[1:] == ["  old  ", "  new"]
    assert [part.strip() for part in lines[3].split("|")] == ["small", "2.0", ""]
    assert [part.strip() for part in lines[4].split("|")] == ["large", "4.0", "4.0"]
    assert lines[-1] == "Times are in microseconds (us)."


def test_statements_that_are_no_python_say_so() -> None:
    with pytest.raises(lt.ArgumentError, match="'x ===' is no Python"):
        Timer("x ===")
    with pytest.raises(lt.ArgumentError, match="statements are of Python"):
        Timer("f();", language="cpp")
