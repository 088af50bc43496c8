"""Layers that ranks share out: losses and gradients are those of one rank."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ranks import needs_mpi, printed

import lazyten as lt
from lazyten import nn
from lazyten.distributed import init_device_mesh
from lazyten.distributed.tensor import Partial, Replicate, Shard
from lazyten.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

LAYOUTS = ["pair", "apart", "scattered", "joined", "one"]
NAMED: list[dict[str, Any]] = [
    {"model": "block", "jit": jit, "words": words, "head": head, "bias": bias, "seed": 1,
     "padding": padding} for jit, words, head, bias, padding in (
        (False, "rows", "columns", True, None), (True, "rows", "rows", False, 3),
        (True, "columns", "columns", True, 0))]
NAMED += [{"model": "block", "jit": jit, "words": "rows", "head": "columns", "bias": bias,
           "seed": 3, "sequences": 8} for jit, bias in ((False, False), (True, True))]
NAMED += [{"model": "mlp", "jit": jit, "words": "rows", "head": "rows", "bias": True, "seed": 2,
           "layouts": layouts, "padding": 10} for layouts, jit in (
        ("pair", False), ("pair", True), ("apart", True), ("scattered", True), ("joined", False),
        ("one", True))]
SPEC = st.fixed_dictionaries({
    "model": st.sampled_from(["mlp", "block"]), "words": st.sampled_from(["rows", "columns"]),
    "head": st.sampled_from(["rows", "columns"]), "bias": st.booleans(), "jit": st.booleans(),
    "seed": st.integers(0, 99), "layouts": st.sampled_from(LAYOUTS),
    "padding": st.sampled_from([None, 0, 5, 10]),
    "optimizer": st.sampled_from(["SGD", "Adam", "RMSprop"])})


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_mlp_and_a_block_learn_as_on_one_rank(size: int) -> None:
    assert printed(size, "tensor_parallel:equal", NAMED).count("done") == size


@needs_mpi
@settings(max_examples=1, suppress_health_check=list(HealthCheck))
@given(specs=st.lists(SPEC, min_size=6, max_size=6))
def test_random_plans_learn_as_on_one_rank(specs: list[dict[str, Any]]) -> None:
    for size, some in ((2, specs[:3]), (4, specs[3:])):
        assert printed(size, "tensor_parallel:equal", some).count("done") == size


@needs_mpi
def test_batches_may_be_shared_out_besides() -> None:
    specs = [{**spec, "batches": 2} for spec in NAMED[:3]]
    assert printed(4, "tensor_parallel:equal", specs).count("done") == 4


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_checkpoints_are_read_whole_and_in_parts(tmp_path: Path, size: int) -> None:
    assert printed(size, "tensor_parallel:saving", str(tmp_path)).count("done") == size


@needs_mpi
def test_what_shared_layers_promise_holds() -> None:
    assert printed(2, "tensor_parallel:promises").count("done") == 2


def _mesh() -> Any:
    return init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))


@pytest.fixture(autouse=True)
def left(request: pytest.FixtureRequest) -> Any:
    yield
    if lt.distributed.is_initialized():
        lt.distributed.destroy()


def test_a_mesh_has_a_line_for_each_axis() -> None:
    mesh = _mesh()
    assert mesh.shape == (1, 1) and mesh.size() == mesh.size("tp") == mesh["tp"].size() == 1
    assert mesh.get_coordinate() == [0, 0] and mesh["tp"].get_local_rank() == mesh.get_rank() == 0
    assert mesh.mesh.tolist() == [[0]] and mesh.ndim == 2 and mesh["tp"].mesh_dim_names == ("tp",)
    assert lt.distributed.device_mesh.init_device_mesh is init_device_mesh
    with pytest.raises(lt.ArgumentError, match=r"no axis 'pp'; .* or one of dp, tp"):
        mesh["pp"]
    for shape, names, words in (((2,), None, "for 1 ranks"), ((1, 1), ("a", "a"), "name of its")):
        with pytest.raises(lt.ArgumentError, match=words):
            init_device_mesh("cpu", shape, mesh_dim_names=names)


def test_layers_keep_their_kind_and_names() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Embedding(4, 2))
    kept = parallelize_module(net, _mesh()["tp"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    assert kept is net and isinstance(net[0], nn.Linear) and isinstance(net[1], nn.Embedding)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight"]
    assert repr(net[0]).startswith("ColwiseLinear(in_features=2")


def test_rows_that_no_rank_has_are_an_error_as_of_the_whole_layer() -> None:
    lt.manual_seed(0)
    whole, shared = nn.Embedding(3, 2), nn.Embedding(3, 2)
    parallelize_module(shared, _mesh()["tp"], RowwiseParallel())
    shared.load_state_dict(whole.state_dict())
    indices = lt.tensor([[-1, 0], [-3, 2]])
    assert shared(indices).tolist() == whole(indices).tolist()
    for layer in (whole, shared):
        with pytest.raises(lt.IndexingError, match="index 3 is outside axis 0, which has size 3"):
            layer(lt.tensor([1, 3])).numpy()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: parallelize_module(nn.Linear(2, 2), _mesh(), ColwiseParallel()), "mesh of shape"),
    (lambda: parallelize_module(nn.Linear(2, 2), None, ColwiseParallel()), "init_device_mesh"),
    (lambda: parallelize_module(nn.Linear(2, 2), _mesh()["tp"], {"up": ColwiseParallel()}),
     "names 'up'"),
    (lambda: parallelize_module(nn.Linear(2, 2), _mesh()["tp"], {"": Replicate()}), "the plan has"),
    (lambda: parallelize_module(nn.ReLU(), _mesh()["tp"], ColwiseParallel()), "is not known"),
    (lambda: parallelize_module(nn.Embedding(3, 2, max_norm=1.0), _mesh()["tp"],
                                RowwiseParallel()), "max_norm"),
    (lambda: parallelize_module(nn.Embedding(3, 2), _mesh()["tp"],
                                RowwiseParallel(input_layouts=Shard(-1))), "the same numbers"),
    (lambda: ColwiseParallel(input_layouts=Shard(-2)), "Shard"),
    (lambda: ColwiseParallel(output_layouts=Shard(1)), "Shard"),
    (lambda: RowwiseParallel(input_layouts=Shard(1)), "Shard"),
    (lambda: PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=()), "1 and 0"),
    (lambda: PrepareModuleOutput(output_layouts=Partial(), desired_output_layouts=Shard(0)),
     "give Shard"),
    (lambda: PrepareModuleInput(input_kwarg_layouts={"a": Shard(0)}), "for each name"),
    (lambda: parallelize_module(nn.Linear(2, 2), _mesh()["tp"], PrepareModuleInput(
        input_layouts=(Shard(0),) * 2, desired_input_layouts=(Replicate(),) * 2))(lt.ones(2, 2)),
     "1 arguments for 2 layouts")])
def test_what_cannot_be_shared_out_is_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(lt.ArgumentError, match=words):
        call()


def test_a_layer_of_sequences_keeps_its_parameters() -> None:
    net = nn.Sequential(nn.LayerNorm(2), nn.Dropout())
    parallelize_module(net, _mesh()["tp"], {"*": SequenceParallel()})
    assert isinstance(net[0], nn.LayerNorm) and list(net.state_dict()) == ["0.weight", "0.bias"]
    assert net(lt.ones(1, 4, 2)).shape == (1, 4, 2) and repr(net[0]).startswith("LayerNorm((2,)")
    with pytest.raises(lt.ArgumentError, match=r"SequenceParallel of 0, .* shared out already"):
        parallelize_module(net, _mesh()["tp"], {"0": SequenceParallel()})
