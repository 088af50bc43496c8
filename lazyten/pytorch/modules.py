"""PyTorch's modules that have no file here: other names of what is elsewhere, and refused ones.

In: the name of a module below `lazyten`. Out: a module that gives the names of another one, such as
`lazyten.autograd.function` those of `lazyten.autograd`, or one whose names say when they are used
why they are not there, such as `lazyten.export`. Python asks here once it has found no such file;
`later` is the `__getattr__` of packages that have such modules below them.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from lazyten.pytorch.names import ELEMENTS, TYPES, no_attribute, reason
from lazyten.pytorch.refusals import AbsentType, class_of_nothing, refusal
from lazyten.support.forking import undivided


def _below(package: str, names: str, home: str | None = None) -> dict[str, str]:
    return {f"{package}.{name}": home or package for name in names.split()}


SAME: dict[str, str] = {
    "_C": "platform.internals", "__config__": "platform.config",
    "_custom_ops": "autograd.custom_operators",
    "_dynamo": "platform.compiler", "_dynamo.utils": "platform.compiler",
    "_inductor": "platform.compiler",
    **_below("_dynamo", "eval_frame _trace_wrapped_higher_order_op", "platform.compiler"),
    "_jit_internal": "pytorch.torchscript", "accelerator": "platform.accelerator",
    "compiler": "platform.compiler", "cpu": "platform.processor",
    "library": "autograd.custom_operators", "futures": "pytorch.futures",
    "_subclasses": "platform.internals", "_subclasses.fake_tensor": "platform.internals",
    "utils.dlpack": "frontend.interop", "utils.hooks": "autodiff.hooks",
    **_below("distributed", "_composable _composable.fsdp", "nn.parallel.fully_sharded"),
    "distributed.fsdp.fully_sharded_data_parallel": "distributed.fsdp",
    "distributed.fsdp.wrap": "distributed.fsdp.wrapping",
    "distributed._tensor": "distributed.tensor",
    "distributed.algorithms.ddp_comm_hooks.default_hooks": "nn.parallel.comm_hooks",
    **dict.fromkeys(("distributed.nn", "distributed.nn.functional",
                     "distributed._functional_collectives"), "distributed.differentiable"),
    "distributed.tensor.experimental": "distributed.tensor.parallel.dtensor",
    "distributed.tensor.placement_types": "distributed.tensor.placements",
    "mps": "platform.no_device", "mtia": "platform.no_device", "overrides": "platform.overrides",
    "types": "platform.overrides", "xpu": "platform.no_device",
    **_below("amp", "autocast_mode grad_scaler"),
    **_below("autograd", "anomaly_mode function grad_mode"),
    **_below("cuda", "memory random"), "cuda.amp": "amp",
    **_below("cuda.amp", "autocast_mode grad_scaler", "amp"),
    **_below("distributions", """
        bernoulli beta binomial cauchy chi2 continuous_bernoulli dirichlet exp_family exponential
        fishersnedecor generalized_pareto geometric gumbel half_cauchy half_normal independent
        inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal
        lowrank_multivariate_normal mixture_same_family multinomial
        negative_binomial normal one_hot_categorical pareto poisson studentT
        transformed_distribution uniform von_mises weibull wishart"""),
    **_below("distributions", "relaxed_bernoulli relaxed_categorical", "distributions.relaxed"),
    "distributions.constraint_registry": "distributions.transforms",
    "distributions.utils": "distributions.distribution",
    **_below("nn.modules", """adaptive channelshuffle container fold pixelshuffle rnn
        transformer upsampling""", "nn"), "nn.modules.utils": "nn.tuples",
    "nn.modules.module": "nn.module",
    "nn._reduction": "nn.functions.options",
    **_below("nn.parallel", "parallel_apply replicate scatter_gather"),
    "nn.utils.stateless": "func", "autograd.profiler": "profiler",
    "autograd.forward_ad": "func.forward_ad",
    **_below("optim", """adadelta adagrad adamax adamw asgd nadam radam rmsprop rprop sgd
        sparse_adam"""),
    "fx._symbolic_trace": "fx.tracer", "functional": "", "quasirandom": "utils.quasirandom",
    "return_types": "linalg.results", "serialization": "saving.saving",
    "torch_version": "version", "_tensor": "",
    "cpu.amp": "amp", "nn.common_types": "nn.tuples",
    "distributed.distributed_c10d": "distributed",
    "utils.data._utils": "utils.data", "utils.data._utils.pin_memory": "utils.data.collate",
    "_utils": "platform.flat",
    "_vmap_internals": "func", "_functorch": "func",
    **_below("_functorch", "apis eager_transforms functional_call vmap", "func"),
    "distributions.multivariate_normal": "distributions.multivariate",
}
"""A module, by its name below `lazyten`, to that which has its names ('': `lazyten` itself)."""

_GRAPHS = ("lazyten records operations itself, whatever Python does in between; lazyten.explain(x) "
           "shows what it has recorded, and module.named_modules() what a model is made of")
_PROFILER = ("operations run fused and later than they are called; lazyten.profile() measures "
             "kernels and lines (docs/seeing.md), DEBUG=2 in the environment prints each kernel")
_INTEGERS = ("lazyten has lazyten.quantize(model) for integers of 8 and 4 bits, with prepare() and "
             "convert() in lazyten.quantization (docs/quantization.md)")
_PROCESSES = ("mpiexec starts processes, and ends them all with one; they work together by "
              "lazyten.distributed's collectives (docs/distributed.md)")
_SYMBOLIC = ("lazyten.onnx.export writes the operations that a function is made of, so no "
             "function of a user's has to")
_PIPES = ("make data sets of lazyten.utils.data.Dataset or IterableDataset, and load them by "
          "DataLoader")
_NATIVE = "lazyten compiles its kernels itself; write the function in Python, of its operations"
REFUSED: dict[str, str] = {
    "ao": _INTEGERS, "ao.quantization": _INTEGERS,
    **_below("quantization", "observer fake_quantize quantize qconfig", _INTEGERS),
    **_below("nn", "quantized quantizable qat intrinsic", _INTEGERS),
    "utils.flop_counter": "operations run fused; lazyten.testing.watch_kernels() has what ran",
    "distributed.algorithms": "DistributedDataParallel has join() and register_comm_hook(), with "
                              "hooks of distributed.algorithms.ddp_comm_hooks.default_hooks",
    "distributed.elastic": _PROCESSES,
    **_below("distributed", """
        run constants tensor._utils fsdp.sharded_grad_scaler launcher utils
        tensor.experimental._attention checkpoint.state_dict_loader
        checkpoint.default_planner checkpoint.optimizer checkpoint.format_utils
        checkpoint.filesystem checkpoint.hf_storage checkpoint.metadata
        checkpoint.planner""", _PROCESSES),
    **dict.fromkeys(("distributed.rpc", "distributed.autograd", "_C._distributed_rpc"),
                    _PROCESSES),
    **dict.fromkeys(("onnx.symbolic_helper", *(f"onnx.symbolic_opset{n}" for n in range(7, 21))),
                    _SYMBOLIC),
    "_higher_order_ops": "Python's own loops and if do it, and steps of a loop that are alike are "
                         "one compiled step",
    "_tensor_str": "a tensor prints itself; lazyten.set_printoptions says how",
    "utils.data.datapipes": _PIPES, "utils.data.graph": _PIPES,
    "export": "lazyten.export.export gives a program that is called, saved and loaded; "
              "lazyten.fx.symbolic_trace(module) has a graph to walk over",
    **_below("fx", "experimental passes traceback", _GRAPHS),
    "nested": "sequences of different lengths are padded: nn.utils.rnn.pad_sequence and "
              "pack_padded_sequence",
    "classes": _NATIVE, "numa": "bind the process to processors by numactl or taskset",
    "package": "save weights with lazyten.save(model.state_dict(), path), and keep the program",
    "utils.cpp_extension": _NATIVE, "utils._python_dispatch": _GRAPHS,
    "utils.mobile_optimizer": _GRAPHS,
    "utils.model_zoo": "lazyten downloads nothing; fetch the weights yourself, and read them with "
                       "lazyten.load_safetensors(path)",
}
"""A module that is refused, by its name below `lazyten`, and why, with what to use instead."""
METHODS: dict[str, str] = {
    **dict.fromkeys(("det", "matrix_exp", "slogdet"), "linalg"), "logdet": "linalg.solving",
    **dict.fromkeys(("cholesky_inverse", "cholesky_solve"), "linalg.triangles"),
    **dict.fromkeys(("as_strided_scatter", "narrow_copy"), "frontend.view_copies"),
    "prelu": "nn.functional", **dict.fromkeys(("istft", "stft"), "signal.spectra"),
    **dict.fromkeys(("geqrf", "orgqr", "ormqr"), "linalg.reflections"),
    **dict.fromkeys(("cholesky", "inverse", "lu", "lu_solve", "pinverse", "qr", "svd",
                     "triangular_solve"), "linalg.older")}
"""Methods of tensors that are functions of modules above, which are loaded when one is wanted."""
SPARSE_METHODS: dict[str, str] = {
    **dict.fromkeys(("to_sparse", "to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "to_dense",
                     "sparse_mask", "_of_saved_parts"), "sparse.making"),
    **dict.fromkeys(("coalesce", "is_coalesced", "indices", "values", "_indices", "_values", "_nnz",
                     "crow_indices", "col_indices", "ccol_indices", "row_indices", "sparse_dim",
                     "dense_dim"), "sparse.conversions"),
    **dict.fromkeys(("_rows_of_gradient", "_sum_of_gradients"), "sparse.gradients")}
"""Those that make sparse tensors, or are of them; no functions of `lazyten` besides."""
ABOVE: dict[str, str] = {
    f"nn.{module}.SyncBatchNorm": "nn.parallel.sync_batch_norm"
    for module in ("modules", "modules.batchnorm")} | {
    "distributed.GradBucket": "nn.parallel.comm_hooks",
    **dict.fromkeys(("distributed.tensor.DTensor", "distributed.tensor.distribute_tensor"),
                    "distributed.tensor.parallel.dtensor"),
    **{f"distributed.tensor.{name}": "distributed.tensor.parallel.distributing"
       for name in ("distribute_module", "zeros", "ones", "empty", "full", "rand", "randn")},
    "nn.modules.activation.MultiheadAttention": "nn",
    "nn.modules.linear.NonDynamicallyQuantizableLinear": "nn.sequence.attention",
    "utils.data.dataloader.get_worker_info": "utils.data.worker",
    **dict.fromkeys(("adaptive_max_pool1d", "batch_norm", "binary_cross_entropy_with_logits",
                     "convolution", "cosine_embedding_loss", "ctc_loss", "embedding",
                     "hinge_embedding_loss", "instance_norm", "kl_div", "margin_ranking_loss",
                     "poisson_nll_loss", "triplet_margin_loss"), "nn.native"),
    **dict.fromkeys(("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"),
                    "nn.sequence.cells"),
    **dict.fromkeys(("conv_tbc", "max_pool1d_with_indices"), "nn.functional"),
    **{f"nn.modules.{file}.Lazy{layer}": "nn.modules.lazy" for file, layers in {
        "linear": ("Linear",), "conv": [f"Conv{way}{n}d" for way in ("", "Transpose")
                                        for n in (1, 2, 3)],
        "batchnorm": [f"BatchNorm{n}d" for n in (1, 2, 3)],
        "instancenorm": [f"InstanceNorm{n}d" for n in (1, 2, 3)]}.items() for layer in layers},
    **{f"ao.quantization.{name}": "quantization.dynamic" for name in (
        "default_dynamic_qconfig", "per_channel_dynamic_qconfig", "quantize_dynamic")},
    "export.Dim": "capture.dims",
    **{f"export.{name}": "exported_program" for name in (
        "ExportedProgram", "export", "load", "save")},
    "storage.UntypedStorage": "storage.untyped", "storage.TypedStorage": "storage.untyped",
    "nn._IncompatibleKeys": "nn.module_state",
    "nn.modules.module._IncompatibleKeys": "nn.module_state"} | {
    f"utils.data.{name}": "utils.data.datapipes"
    for name in ("IterDataPipe", "MapDataPipe", "DFIterDataPipe", "functional_datapipe")}
"""Names of modules that stand above those which PyTorch has them in, loaded when asked for."""
IMPORTED: dict[str, str] = {
    **dict.fromkeys(("Size", "Tensor", "default_generator", "device", "dtype", "randperm"), ""),
    **dict.fromkeys(("Function", "Variable"), "autograd"),
    "once_differentiable": "autograd.function", "RemovableHandle": "utils.hooks",
    **dict.fromkeys(("Bernoulli", "Categorical", "Distribution", "Normal"), "distributions"),
    **dict.fromkeys(("broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs",
                     "probs_to_logits"), "distributions.utils"),
    **dict.fromkeys(("Module", "Parameter", "UninitializedBuffer", "UninitializedParameter"), "nn"),
    "binary_cross_entropy_with_logits": "nn.functional", "PackedSequence": "nn.utils.rnn",
    **dict.fromkeys(("constant_", "kaiming_normal_", "kaiming_uniform_", "normal_",
                     "xavier_normal_", "xavier_uniform_"), "nn.init"),
    "Optimizer": "optim", **dict.fromkeys(("Dataset", "IterableDataset", "Sampler"), "utils.data"),
    **dict.fromkeys(("handle_torch_function", "has_torch_function", "has_torch_function_unary",
                     "has_torch_function_variadic", "is_tensor_like"), "overrides"),
    **dict.fromkeys(("tree_flatten", "tree_map", "tree_unflatten"), "utils._pytree")}
"""What PyTorch's modules import for themselves, and programs from these, and where it is."""
WHOLE = {"lazyten.nn.modules": "nn"}
"""A package, and one above whose names it has, too."""
CALLED: dict[str, str] = {"export": "ahead.exporting"}
"""Those whose name is that of a function of lazyten's, too, and the module that has it."""


class OtherName(ModuleType):
    """A module with the names of another."""

    _home: str

    def __init__(self, name: str, home: str) -> None:
        super().__init__(name, f"`{name}`: another name of `{home}`, as in PyTorch.")
        self.__dict__.update(_home=home, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        below = f"{self.__name__}.{name}"
        if is_module(below):
            return import_module(below)
        home = ABOVE.get(below.removeprefix("lazyten."))
        return getattr(import_module(self._home if home is None else f"lazyten.{home}"), name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self._home))


class RefusedModule(ModuleType):
    """A module all of whose names are refused when they are used, not when they are imported."""

    _reason: str

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.__dict__.update(_reason=reason, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__.partition('.')[2]}.{name}"
        if whole in ABOVE:
            return getattr(import_module(f"lazyten.{ABOVE[whole]}"), name)
        if whole in SAME or any(there.startswith(f"{whole}.") for there in (*SAME, *ABOVE)):
            return import_module(f"{self.__name__}.{name}")
        return refusal(whole, self._reason)


class CalledModule(RefusedModule):
    """One that can be called, as it is in the place of a function of that name, too."""

    @property
    def __wrapped__(self) -> Any:
        """The function."""
        name = self.__name__.removeprefix("lazyten.")
        return getattr(import_module(f"lazyten.{CALLED[name]}"), name)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.__wrapped__(*args, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """A function is pickled, and copied, by its name."""
        return import_module, (self.__name__,)


class LaterMethod:
    """A method that is loaded when it is first asked for, and is in this one's place then."""

    def __init__(self, name: str, home: str) -> None:
        self.name, self.home = name, f"lazyten.{home}"

    def __get__(self, instance: object, owner: type) -> Any:
        whole = next(c for c in owner.__mro__ if vars(c).get(self.name) is self)
        setattr(whole, self.name, getattr(import_module(self.home), self.name))
        return getattr(owner if instance is None else instance, self.name)


def add_methods(owner: type) -> None:
    """Give the class of tensors METHODS and SPARSE_METHODS."""
    for name, home in (METHODS | SPARSE_METHODS).items():
        setattr(owner, name, LaterMethod(name, home))


class _Finder(MetaPathFinder, Loader):
    """Finds the modules of SAME and REFUSED."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not is_module(fullname):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = spec.name.removeprefix("lazyten.")
        reason = _refusal(name)
        if reason is not None:
            return (CalledModule if name in CALLED else RefusedModule)(spec.name, reason)
        return OtherName(spec.name, f"lazyten.{SAME[name]}".rstrip("."))

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def is_module(name: str) -> bool:
    """Whether a name such as 'lazyten.export' is that of a module which is made here."""
    below = name.removeprefix("lazyten.")
    return below != name and (below in SAME or _refusal(below) is not None)


def _refusal(name: str) -> str | None:
    """Why a module is refused, or one that it is below. What Python asks modules for, such as
    'export.__file__', is none."""
    if name.rpartition(".")[2].startswith("__"):
        return None
    while name and name not in SAME:
        if name in REFUSED:
            return REFUSED[name]
        name = name.rpartition(".")[0]
    return None


def later(package: str, *below: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: modules below it that are made here, or are of these names and
    loaded when they are asked for, and names that are above. AttributeError, with a reason where
    there is one, for others."""
    @undivided
    def found(name: str) -> Any:
        whole = f"{package}.{name}"
        if is_module(whole) or name in below:
            return import_module(whole)
        home = ABOVE.get(whole.removeprefix("lazyten.")) or WHOLE.get(package)
        if home is not None and not name.startswith("__"):
            return getattr(import_module(f"lazyten.{home}"), name)
        if package in ("lazyten", "lazyten.storage") and name in TYPES:
            return _class_of_nothing(name)
        if package == "lazyten" and name in ELEMENTS:
            return _absent_type(name)
        raise no_attribute(package, name)
    return found


@cache
def _absent_type(name: str) -> AbsentType:
    return AbsentType(name)


@cache
def _class_of_nothing(name: str) -> type:
    return class_of_nothing(name, str(reason(name)))


def function_named(name: str) -> Callable[..., Any] | None:
    """What `lazyten` or `lazyten.nn.functional` have under a name, if they have it."""
    homes = map(import_module, ("lazyten", "lazyten.nn.functional"))
    return next((getattr(home, name) for home in homes if hasattr(home, name)), None)


def install() -> None:
    """Let Python ask here for what it finds no file of."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
