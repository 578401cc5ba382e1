"""Operators of PyTorch's database that write to memory which they read: refused, or right as of memory apart."""

import warnings

import pytest
import torch
from torch.utils._pytree import tree_map_only

from opinfo_runner import ENTRIES, VALUES_UNDEFINED, pick_samples

REFUSED = "single memory location|overlap|share memory|shares? memory"
# In place, these write sizes and strides alone, or one value.
REPEATS = {
    "as_strided", "as_strided.partial_views", "fill", "resize_", "resize_as_", "squeeze", "squeeze.multiple", "t",
    "transpose", "unsqueeze", "zero_",
}  # fmt: skip
# Along one dimension, PyTorch writes nothing to `out`.
LEAVES = {"fft.ihfft2", "fft.ihfftn"}


def entries(has_form):
    return [
        name for name, op in ENTRIES.items()
        if has_form(op) and name not in VALUES_UNDEFINED and torch.float32 in op.dtypes
    ]  # fmt: skip


def dense_pair(x):
    """Two views of one buffer, an element apart; the first has x's values."""
    buffer = torch.zeros(x.numel() + 1, dtype=x.dtype, device=x.device)
    buffer[:-1] = x.reshape(-1)
    return buffer[:-1].view(x.shape), buffer[1:].view(x.shape)


def gap_pair(x):
    """The same of columns."""
    buffer = torch.zeros(*x.shape[:-1], x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    buffer[..., :-1] = x
    return buffer[..., :-1], buffer[..., 1:]


def on_device(tree):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to("aule", copy=True), tree)


def samples_of(op):
    for sample in pick_samples(op, torch.float32, 2, requires_grad=False):
        if isinstance(sample.input, torch.Tensor) and sample.input.dim() > 0 and sample.input.numel() > 1:
            yield [sample.input, *sample.args], sample.kwargs


def compare(run, apart, shared):
    """`run` of operands that share memory raises PyTorch's error, or results as of operands that do not."""
    expected = run(apart)
    try:
        actual = run(shared)
    except (RuntimeError, IndexError) as error:
        assert any(part in str(error) for part in REFUSED.split("|")), error
        return
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def runs(call):
    """Whether the operator takes the sample in this form at all."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
        return False
    return True


@pytest.mark.sampled(90)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", entries(lambda op: op.supports_out and op.name not in LEAVES))
def test_results(device, name):
    op = ENTRIES[name]
    for args, kwargs in samples_of(op):
        args, kwargs = on_device(args), on_device(kwargs)
        if not runs(lambda args=args, kwargs=kwargs: op(*args, **kwargs)):
            continue
        result = op(*args, **kwargs)
        single = isinstance(result, torch.Tensor)
        if not isinstance(result, (torch.Tensor, tuple, list)):
            continue
        results = [result] if single else list(result)
        for i, r in enumerate(results):
            def into(out, args=args, i=i, results=results, single=single, kwargs=kwargs):
                outs = [torch.empty_like(t) for t in results]
                outs[i] = out
                op(*args, **kwargs, out=outs[0] if single else tuple(outs))
                return out

            if not isinstance(r, torch.Tensor) or r.numel() < 2 or not runs(lambda r=r: into(torch.empty_like(r))):
                continue
            with pytest.raises(RuntimeError, match=REFUSED):
                into(torch.zeros(1, dtype=r.dtype, device=device).expand(r.shape))
            for k, x in enumerate(args):
                if not isinstance(x, torch.Tensor) or x.shape != r.shape or x.dtype != r.dtype:
                    continue
                for pair in (dense_pair, gap_pair):
                    read, written = pair(x)
                    compare(lambda given, k=k: into(given[1], [*args[:k], given[0], *args[k + 1:]]),
                            (x.clone(), torch.empty_like(r)), (read, written))  # fmt: skip


@pytest.mark.sampled(40)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", entries(lambda op: op.inplace_variant is not None))
def test_in_place(device, name):
    op = ENTRIES[name]
    for args, kwargs in samples_of(op):
        args, kwargs = on_device(args), on_device(kwargs)
        x = args[0]

        def update(given, others=args[1:], kwargs=kwargs):
            return op.inplace_variant(given, *others, **kwargs)

        if not runs(lambda: update(x.clone())):
            continue
        if name not in REPEATS and not torch.equal(update(x.clone()), x):
            with pytest.raises(RuntimeError, match=REFUSED):
                update(x.flatten()[:1].clone().expand(x.shape))
        for k, other in enumerate(args[1:]):
            if not isinstance(other, torch.Tensor) or other.shape != x.shape or other.dtype != x.dtype:
                continue
            for pair in (dense_pair, gap_pair):
                read, written = pair(other)
                compare(lambda given, k=k: update(given[1], [*args[1 : k + 1], given[0], *args[k + 2 :]]),
                        (read.clone(), written.clone()), (read, written))  # fmt: skip
