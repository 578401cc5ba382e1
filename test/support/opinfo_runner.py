"""Runs one entry of PyTorch's operator database on the device and says how it went.

Used by test_opinfo.py (few samples, one test an entry) and opinfo_report.py (more samples, the table).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.utils._pytree import tree_flatten, tree_map

from helpers import like_strided
from opinfo_compare import Comparison, compare, tolerances, widen

# Each sample would look through the stack, and the sources of its frames, for a unittest.TestCase to note itself in:
# two thirds of a test's time, and no test here is one.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

# Results are random or unset: only their shapes and dtypes are compared.
VALUES_UNDEFINED = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "nn.functional.alpha_dropout",
    "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu", "nn.functional.scaled_dot_product_attention", "normal", "pca_lowrank", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip
# Of those, random only for some samples; the others are compared by value.
RANDOM_ONLY_WITH_DROPOUT = {
    "nn.functional.multi_head_attention_forward",
    "nn.functional.scaled_dot_product_attention",
}


# Position of `dim` among the arguments of operators that may return the index of any of several equal elements.
TIES = {"sort": 0, "argsort": 0, "msort": None, "mode": 0, "topk": 1, "kthvalue": 1}
# Means and variances of 16-bit inputs are float32 here and on torch.cuda, 16-bit on the CPU.
STATISTICS = {"native_layer_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}
# Infinite at negative integers, where the CPU's float32 gives some large number: sin(pi x) is not 0 there.
POLES = {"polygamma", "special.polygamma"}
# Factorizations, solvers and what is made of them. Of linalg.*, the products, norms of vectors and views are not.
LINEAR_ALGEBRA = {
    "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "logdet", "lu", "lu_solve", "lu_unpack", "matrix_exp",
    "norm.nuc", "ormqr", "pca_lowrank", "pinverse", "qr", "svd", "svd_lowrank", "triangular_solve",
}  # fmt: skip
NOT_FACTORIZED = {
    "linalg.cross", "linalg.diagonal", "linalg.multi_dot", "linalg.vander", "linalg.vecdot", "linalg.vector_norm",
}  # fmt: skip
# Vectors of these are free in sign and phase, values of general matrices in order.
SPECTRA = {"linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.svd", "svd"}
# PyTorch wants these tensors on the CPU, whatever the device of the first.
STAYS = {"tensor_split"}


@dataclass
class Outcome:
    """How one entry went: `status` is one of STATUSES, `detail` says what was seen."""

    status: str
    detail: str = ""
    samples: int = 0
    settled: list = field(default_factory=list)  # (our error, the CPU's) against float64, where only that settled it


STATUSES = {
    "native": "every sample agrees with the CPU, with no operator on the CPU",
    "fallback": "every sample agrees with the CPU, some operators ran there",
    "refused": "strict mode refused an operator without a kernel",
    "unsupported": "a kernel declined the arguments with a clear error",
    "wrong": "a result differs from the CPU's",
    "error": "an error of another kind",
    "crash": "the process died or hung",
    "none": "the database has no sample for it here",
}


def entry_name(op) -> str:
    """Unique name of an entry: the operator's, with the variant's test name after a dot."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def is_linear_algebra(entry: str) -> bool:
    """Whether an entry of the database needs a factorization or a solver."""
    return entry in LINEAR_ALGEBRA or (entry.startswith("linalg.") and entry not in NOT_FACTORIZED)


ENTRIES = {entry_name(op): op for op in op_db}


def forward_dtype(op) -> torch.dtype | None:
    """float32, or the first other dtype the operator has on the CPU."""
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float16):
        if dtype in op.dtypes:
            return dtype
    return next(iter(op.dtypes), None)


def _names_cuda(sample) -> bool:
    """Where torch has CUDA, some samples ask for results there."""
    leaves = tree_flatten((sample.args, sample.kwargs))[0]
    return any(str(leaf).startswith("cuda") for leaf in leaves if isinstance(leaf, (str, torch.device)))


def pick_samples(op, dtype, limit: int, requires_grad: bool):
    """At most `limit` samples: the first ones and a spread of the rest."""
    torch.manual_seed(1234)
    samples = []
    try:
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), 400):
            if not _names_cuda(sample):
                samples.append(sample)
    except Exception:  # some generators ask for what this build of torch lacks; those before it still count
        pass
    if len(samples) <= limit:
        return samples
    step = (len(samples) - 1) / (limit - 1) if limit > 1 else 1
    return [samples[round(i * step)] for i in range(limit)]


def _copy(value):
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            if value.layout == torch.strided:
                copy = like_strided(value, "cpu")
            else:
                copy = value.detach().clone()
        return copy.requires_grad_(value.requires_grad)
    return value


def _move(value):
    if isinstance(value, torch.Tensor):
        return like_strided(value, "aule")
    if isinstance(value, torch.device) and value.type == "cpu":
        return torch.device("aule")
    if isinstance(value, str) and value == "cpu":
        return "aule"
    return value


def _tensors(result):
    return [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]


_REFUSED = re.compile(r"strict", re.IGNORECASE)


def _classify(error: BaseException) -> Outcome:
    text = " ".join(str(error).split())
    if isinstance(error, NotImplementedError) or _REFUSED.search(text):
        ops = re.findall(r"aten::[A-Za-z0-9_.]+", text)
        return Outcome("refused", ops[0] if ops else text[:160])
    if isinstance(error, (RuntimeError, TypeError, ValueError)) and re.search(
        r"not support|unsupported|not implemented|complex|float64|double", text, re.IGNORECASE
    ):
        return Outcome("unsupported", text[:200])
    return Outcome("error", f"{type(error).__name__}: {text[:200]}")


def _describe(sample) -> str:
    def show(value):
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        return repr(value)[:40]

    arguments = [tree_map(show, sample.input), *tree_map(show, list(sample.args))]
    arguments += [f"{k}={show(v)}" for k, v in sample.kwargs.items()]
    return ", ".join(map(str, arguments))[:160]


# Forward; forward and backward; in place; into tensors given as `out=`.
DIRECTIONS = ("forward", "backward", "in_place", "out")


def has_direction(op, dtype: torch.dtype, direction: str) -> bool:
    """Whether the database says that the CPU computes this form of the operator in this dtype."""
    if direction == "backward":
        is_differentiable = dtype.is_floating_point or dtype.is_complex
        return op.supports_autograd and is_differentiable and dtype in op.supported_backward_dtypes("cpu")
    if dtype not in op.supported_dtypes("cpu"):
        return False
    return direction == "forward" or (op.inplace_variant is not None if direction == "in_place" else op.supports_out)


def call_entry(op, direction: str, args, kwargs):
    """The operator in one of its forms; `out=` gets empty tensors of the results' dtypes and devices."""
    if direction == "in_place":
        result = op.inplace_variant(*args, **kwargs)
        assert result is args[0], "an in-place operator returns what it wrote to"
        return result
    result = op.get_op()(*args, **kwargs)
    if direction != "out":
        return result
    out = tree_map(lambda t: torch.empty(0, dtype=t.dtype, device=t.device), result)
    return op.get_op()(*args, **kwargs, out=out)


def run_entry(op, dtype=None, *, limit: int = 6, direction: str = "forward") -> Outcome:
    """One form of an entry on the device against the CPU, in the mode that is set."""
    backward = direction == "backward"
    dtype = dtype or forward_dtype(op)
    table = tolerances(op, dtype)
    outcome = Outcome("native")
    torch.aule.reset_fallback_report()
    for sample in pick_samples(op, dtype, limit, backward):
        values = _has_values(op, sample)

        def call(change, sample=sample):
            rest = _copy if change is _move and op.name in STAYS else change
            args = tree_map(change, sample.input), tree_map(rest, list(sample.args)), tree_map(rest, sample.kwargs)
            torch.manual_seed(77)
            result = call_entry(op, direction, (args[0], *args[1]), args[2])
            if op.op is not None and sample.output_process_fn_grad is not None and backward:
                result = sample.output_process_fn_grad(result)
            return args, result

        try:
            cpu_args, expected = call(_copy)
            cpu_grads, weights = _gradients(cpu_args, expected) if backward else ([], None)
        except Exception:
            continue  # the CPU itself refuses this sample
        try:
            args, actual = call(_move)
            settle_ties(op, sample, actual, expected)
            settle_saturation(op, sample, actual, expected)
            statistics = op.name in STATISTICS
            made = phase_free if not backward and op.name in SPECTRA else lambda _, result: result
            found = compare(
                made(op, actual), made(op, expected), values, table, lambda: made(op, call(widen)[1]), statistics
            )
            if backward and op.name in TIES:
                values = values and sample.input.unique().numel() == sample.input.numel()
            if not found.message and backward and cpu_grads:
                grads, _ = _gradients(args, actual, weights, expected)
                found.settled += (
                    more := _compare_gradients(
                        grads, cpu_grads, values, table, lambda: _wide_gradients(call, weights, expected)
                    )
                ).settled
                found.message = more.message
            torch.aule.synchronize()
        except Exception as error:
            refused = _classify(error)
            refused.detail += f"  [{_describe(sample)}]" if refused.status != "refused" else ""
            refused.samples = outcome.samples
            return refused
        if found.message:
            return Outcome("wrong", f"{found.message}  [{_describe(sample)}]", outcome.samples)
        outcome.settled += found.settled
        outcome.samples += 1
    if not outcome.samples:
        return Outcome("none")
    if report := torch.aule.fallback_report():
        outcome.status = "fallback"
        outcome.detail = ", ".join(sorted(row.op for row in report))
    return outcome


def phase_free(op, result) -> tuple[torch.Tensor, ...]:
    """What the factors make: their product, and the projections on the spaces of their vectors."""
    if op.name in ("linalg.eig", "linalg.eigvals"):
        w, v = (result, None) if op.name == "linalg.eigvals" else result
        values = w.real.sort(-1)[0], w.imag.sort(-1)[0]
        return values if v is None else (*values, v * w.unsqueeze(-2) @ torch.linalg.inv(v))
    if op.name == "linalg.eigh":
        w, v = result
        return w, v * w.unsqueeze(-2) @ v.mH, v @ v.mH
    u, s, v = result
    v, k = v.mH if op.name == "linalg.svd" else v, s.shape[-1]
    return s, u[..., :k] * s.unsqueeze(-2) @ v[..., :k].mH, u @ u.mH, v @ v.mH


def settle_ties(op, sample, actual, expected) -> None:
    """Makes indices of equal elements equal, and infinities at poles, in the CPU's results."""
    if op.name in POLES and not sample.input.dtype.is_floating_point:
        pole = actual.cpu().isinf() & (expected.abs() > 1e12)
        expected[pole] = actual.cpu()[pole]
    if op.name not in TIES or sample.kwargs.get("stable") or op.name == "msort" or sample.input.dim() == 0:
        return
    at = TIES[op.name]
    dim = sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)
    keeps = op.name in ("sort", "argsort", "topk")
    for a, e in zip(_tensors(actual), _tensors(expected)):
        if e.dtype != torch.int64 or e.shape != a.shape or (op.name != "argsort" and e is _tensors(expected)[0]):
            continue
        if keeps or e.dim() == sample.input.dim():
            a_index, e_index = a.cpu(), e
        else:
            a_index, e_index = a.cpu().unsqueeze(dim), e.unsqueeze(dim)
        same = sample.input.gather(dim, a_index) == sample.input.gather(dim, e_index)
        if same.all() and (not keeps or all_different(a_index, dim)):
            e.copy_(a.cpu())


def settle_saturation(op, sample, actual, expected) -> None:
    """Products beyond the largest float8 are that number here and in cuBLAS; on some processors PyTorch gives NaN."""
    if op.name != "torch._scaled_mm" or not expected.numel():
        return
    product = sample.input.double() @ sample.args[0].double() * sample.args[1].double() * sample.args[2].double()
    ours, theirs, largest = actual.cpu().float(), expected.float(), torch.finfo(expected.dtype).max
    settled = theirs.isnan() & (product.abs() > largest) & (ours == largest * product.sign())
    expected.copy_(torch.where(settled, ours, theirs).to(expected.dtype))


def all_different(index: torch.Tensor, dim: int) -> bool:
    ordered = index.sort(dim).values
    return index.shape[dim] < 2 or bool((ordered.diff(dim=dim) != 0).all())


def _has_values(op, sample) -> bool:
    """Whether the results are determined by the inputs."""
    if op.name in RANDOM_ONLY_WITH_DROPOUT:
        return not (sample.kwargs.get("dropout_p") or any(type(a) is float and 0 < a < 1 for a in sample.args))
    if op.name == "nn.functional.rrelu":
        return not sample.kwargs.get("training")
    return op.name not in VALUES_UNDEFINED


def _gradients(args, results, weights=None, expected=None):
    """Gradients of all inputs for random weights of the results (those given, if any)."""
    inputs = [t for t in _tensors(args) if t.requires_grad]
    outputs = _tensors(results)
    chosen = [i for i, e in enumerate(_tensors(results if expected is None else expected)) if e.requires_grad]
    if not chosen or not inputs:
        return [], None
    outputs = [outputs[i] for i in chosen]
    if weights is None:
        weights = [torch.randn_like(e) for e in outputs]
    given = [w.to(device=o.device, dtype=o.dtype) for w, o in zip(weights, outputs)]
    return list(torch.autograd.grad(outputs, inputs, given, allow_unused=True)), weights


def _wide_gradients(call, weights, expected):
    args, results = call(widen)
    return [torch.zeros(()) if g is None else g for g in _gradients(args, results, weights, expected)[0]]


def _compare_gradients(grads, cpu_grads, values, table, reference) -> Comparison:
    for i, (a, e) in enumerate(zip(grads, cpu_grads)):
        if (a is None) != (e is None):
            return Comparison(f"gradient {i} {'missing' if a is None else 'unexpected'}")
    pairs = [(a, e) for a, e in zip(grads, cpu_grads) if e is not None]
    kept = [i for i, e in enumerate(cpu_grads) if e is not None]
    found = compare([a for a, _ in pairs], [e for _, e in pairs], values, table, lambda: [reference()[i] for i in kept])
    if found.message:
        found.message = f"gradient: {found.message}"
    return found
