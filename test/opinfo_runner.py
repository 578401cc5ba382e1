"""Runs one entry of PyTorch's operator database on the device and says how it went.

Used by test_opinfo.py (few samples, one test an entry) and opinfo_report.py (more samples, the table).
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from helpers import like_strided

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


@dataclass
class Outcome:
    """How one entry went: `status` is one of STATUSES, `detail` says what was seen."""

    status: str
    detail: str = ""
    samples: int = 0


STATUSES = {
    "native": "every sample agrees with the CPU, with no operator on the CPU",
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


def _compare(actual, expected, values: bool) -> str:
    """Empty when the results agree, else what differs."""
    a_leaves, e_leaves = tree_flatten(actual)[0], tree_flatten(expected)[0]
    if len(a_leaves) != len(e_leaves):
        return f"{len(a_leaves)} results instead of {len(e_leaves)}"
    for a, e in zip(a_leaves, e_leaves):
        if not isinstance(e, torch.Tensor):
            if isinstance(e, (bool, int, str, torch.Size, torch.dtype)) and a != e:
                return f"{a} instead of {e}"
            if isinstance(e, float) and values and not torch.allclose(
                torch.tensor(a), torch.tensor(e), rtol=1e-4, atol=1e-5, equal_nan=True
            ):
                return f"{a} instead of {e}"
            continue
        if not isinstance(a, torch.Tensor):
            return f"{type(a).__name__} instead of a tensor"
        if a.dtype != e.dtype:
            return f"dtype {a.dtype} instead of {e.dtype}"
        if a.shape != e.shape:
            return f"shape {tuple(a.shape)} instead of {tuple(e.shape)}"
        if a.numel() and a.device.type == "cpu" and e.device.type != "cpu":
            return "result left on the CPU"
        if not values or a.layout != torch.strided:
            continue
        message = _compare_values(a.detach().cpu(), e.detach())
        if message:
            return message
    return ""


def _compare_values(a: torch.Tensor, e: torch.Tensor) -> str:
    if not (e.dtype.is_floating_point or e.dtype.is_complex):
        different = (a != e).sum().item()
        return f"{different} of {e.numel()} values differ" if different else ""
    rtol, atol = {
        torch.float16: (5e-3, 5e-3),
        torch.bfloat16: (3e-2, 3e-2),
        torch.float64: (1e-6, 1e-7),
    }.get(e.dtype, (1e-4, 2e-5))
    finite = e[torch.isfinite(e)].abs()
    if finite.numel():
        # sums of large terms: rounding is relative to the terms, which the size of the results hints at
        atol = max(atol, rtol * 0.1 * finite.mean().item())
    close = torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    worst = torch.where(
        close, torch.zeros((), dtype=torch.float64), torch.nan_to_num((a - e).abs().double(), nan=1e300)
    )
    at = int(worst.argmax())
    return (
        f"{(~close).sum().item()} of {e.numel()} values differ, worst at {at}: "
        f"{a.flatten()[at].item()} instead of {e.flatten()[at].item()}"
    )


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


def run_entry(op, dtype=None, *, limit: int = 6, backward: bool = False) -> Outcome:
    """Forward (or forward and backward) of an entry on the device against the CPU."""
    dtype = dtype or forward_dtype(op)
    done = 0
    for sample in pick_samples(op, dtype, limit, backward):
        values = op.name not in VALUES_UNDEFINED
        if op.name in RANDOM_ONLY_WITH_DROPOUT:
            values = not (sample.kwargs.get("dropout_p") or any(type(a) is float and 0 < a < 1 for a in sample.args))
        if op.name == "nn.functional.rrelu" and not sample.kwargs.get("training"):
            values = True
        function = op.get_op()

        def call(change):
            args = tree_map(change, (sample.input, list(sample.args), sample.kwargs))
            result = function(args[0], *args[1], **args[2])
            if op.op is not None and sample.output_process_fn_grad is not None and backward:
                result = sample.output_process_fn_grad(result)
            return args, result

        try:
            torch.manual_seed(77)
            cpu_args, expected = call(_copy)
        except Exception:
            continue  # the CPU itself refuses this sample
        try:
            torch.manual_seed(77)
            args, actual = call(_move)
            message = _compare(actual, expected, values)
            if not message and backward:
                message = _compare_gradients(args, actual, cpu_args, expected, values)
            torch.aule.synchronize()
        except Exception as error:
            outcome = _classify(error)
            outcome.detail += f"  [{_describe(sample)}]" if outcome.status != "refused" else ""
            outcome.samples = done
            return outcome
        if message:
            return Outcome("wrong", f"{message}  [{_describe(sample)}]", done)
        done += 1
    return Outcome("native", samples=done) if done else Outcome("none")


def _compare_gradients(args, actual, cpu_args, expected, values: bool) -> str:
    inputs = [t for t in _tensors(args) if t.requires_grad]
    cpu_inputs = [t for t in _tensors(cpu_args) if t.requires_grad]
    pairs = [(a, e) for a, e in zip(_tensors(actual), _tensors(expected)) if e.requires_grad]
    if not pairs or not cpu_inputs:
        return ""
    weights = [torch.randn_like(e) for _, e in pairs]
    cpu_grads = torch.autograd.grad([e for _, e in pairs], cpu_inputs, weights, allow_unused=True)
    grads = torch.autograd.grad([a for a, _ in pairs], inputs, [w.to("aule") for w in weights], allow_unused=True)
    for i, (a, e) in enumerate(zip(grads, cpu_grads)):
        if (a is None) != (e is None):
            return f"gradient {i} {'missing' if a is None else 'unexpected'}"
        if e is not None:
            message = _compare(a, e, values)
            if message:
                return f"gradient {i}: {message}"
    return ""
