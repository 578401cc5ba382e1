"""Results lie in memory as PyTorch's do: a later view() works, and a later contiguous() copies, as elsewhere.

Nothing behind a result is written.
"""

import random
import warnings

import pytest
import torch
import torch.utils._pytree as pytree

from helpers import random_tensor
from opinfo_runner import ENTRIES

SAMPLES = 3  # of an operator
PARTS = 4
AS_ON_CUDA = {
    "nn.functional.max_pool1d": "made of max_pool2d, as on CUDA; the CPU has a kernel of its own without gradients",
    "nn.functional.max_unpool2d": "contiguous, as CUDA's kernel; the CPU's keeps channels-last",
    "nn.functional.max_unpool2d.grad": "the same",
    "nn.functional.scaled_dot_product_attention": "like the queries, as CUDA's FlashAttention",
    "nn.functional.pad.reflect": "contiguous, as CUDA's kernels; the CPU's keep channels-last",
    "nn.functional.pad.replicate": "the same",
    "nn.functional.pad.replicate_negative": "the same",
    "nn.functional.pixel_shuffle": "composed of views and a copy, as on CUDA; the CPU has a kernel",
    "nn.functional.pixel_unshuffle": "the same",
}


def transposed(t):
    return t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() >= 2 else t


def with_gaps(t):
    wide = torch.zeros(*t.shape[:-1], t.shape[-1] * 2 + 1, dtype=t.dtype)
    view = wide[..., : t.shape[-1] * 2 : 2]
    return view.copy_(t)


def channels_last(t):
    return t.to(memory_format=torch.channels_last) if t.dim() == 4 else t


def on_device(t):
    """A copy with the strides of `t`."""
    if t.is_contiguous():
        return t.to("aule")
    storage = torch.empty(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype, device="aule")
    return storage.as_strided(t.shape, t.stride(), t.storage_offset()).copy_(t.to("aule"))


def strides(t):
    """Of dimensions that have more than one place."""
    return [stride for stride, size in zip(t.stride(), t.shape) if size > 1]


def results(op, arguments):
    value, args, kwargs = arguments
    return [leaf for leaf in pytree.tree_leaves(op.op(value, *args, **kwargs)) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("part", range(PARTS))
def test_strides_of_results(part):
    differing, compared = set(), 0
    for number, (name, op) in enumerate(ENTRIES.items()):
        if number % PARTS != part or torch.float32 not in op.dtypes or name in AS_ON_CUDA:
            continue
        if op.name.startswith("jiterator"):  # compiles CUDA
            continue
        for sample, _ in zip(op.sample_inputs("cpu", torch.float32), range(SAMPLES)):
            for layout in (lambda t: t, transposed, with_gaps, channels_last):
                arguments = (sample.input, sample.args, sample.kwargs)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        host = pytree.tree_map_only(torch.Tensor, lambda t: layout(t) if t.dim() else t, arguments)
                        expected = results(op, host)
                        actual = results(op, pytree.tree_map_only(torch.Tensor, on_device, host))
                    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
                        continue  # refused for this layout, or in strict mode; test_opinfo.py has the list
                for e, a in zip(expected, actual):
                    compared += 1
                    if e.numel() and strides(e) != strides(a):
                        differing.add((name, tuple(e.shape), e.stride(), a.stride()))
    assert not differing
    assert compared > 1000


def test_indexing_keeps_the_order_of_dimensions():
    x = torch.randn(5, 6, 7, 8)
    rows = torch.tensor([[0, 2, 1], [3, 4, 0]])
    for layout in ((0, 1, 2, 3), (3, 1, 0, 2), (1, 3, 2, 0)):
        order = sorted(range(4), key=layout.__getitem__)
        host = x.permute(layout).contiguous().permute(order)
        device = x.to("aule").permute(layout).contiguous().permute(order)
        for pick in (
            lambda t, i: t[i],
            lambda t, i: t[:, i],
            lambda t, i: t[:, i.t()],
            lambda t, i: t[i, :, i],
            lambda t, i: t[:, i, i.t().contiguous().t()],
            lambda t, i: t[i.t(), i.t()],
            lambda t, i: t[t[..., 0, 0] > 0],
        ):
            expected, actual = pick(host, rows), pick(device, rows.to("aule"))
            assert torch.equal(actual.cpu(), expected)
            assert strides(actual) == strides(expected)


@pytest.mark.parametrize("n", [1, 3, 7, 13, 1023])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8], ids=str)
def test_nothing_behind_a_result_is_written(device, n, dtype):
    """The last vector of a dense operand is seldom whole."""
    x = random_tensor(n + 64, dtype=dtype)
    on = x.to(device)
    for part in (slice(0, n), slice(16, 16 + n)):
        x[part].bitwise_xor_(5) if dtype == torch.uint8 else x[part].neg_()
        on[part].bitwise_xor_(5) if dtype == torch.uint8 else on[part].neg_()
        assert torch.equal(on.cpu(), x)
        torch.add(x[part], 2, out=x[part])
        torch.add(on[part], 2, out=on[part])
        assert torch.equal(on.cpu(), x)


def test_concatenation_has_dtype_and_strides_of_the_cpu(device):
    for _ in range(40):
        dims = random.choice((1, 2, 4, 4, 4, 5))
        dim = random.randrange(dims)
        shape = [random.randrange(1, 5) for _ in range(dims)]
        other = {4: torch.channels_last, 5: torch.channels_last_3d}.get(dims, torch.contiguous_format)
        tensors = []
        for _ in range(random.randrange(1, 5)):
            sizes = [random.randrange(4) if d == dim else size for d, size in enumerate(shape)]
            x = torch.randint(-9, 9, sizes).to(random.choice((torch.float32, torch.float16, torch.int32)))
            tensors.append(x.contiguous(memory_format=random.choice((torch.contiguous_format, other))))
        if random.random() < 0.2:
            tensors.insert(random.randrange(len(tensors) + 1), torch.empty(0))
        ours, theirs = torch.cat([x.to(device) for x in tensors], dim), torch.cat(tensors, dim)
        assert (ours.dtype, ours.shape, ours.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        assert torch.equal(ours.cpu(), theirs)


def test_concatenation_refuses_what_the_cpu_refuses(device):
    x = torch.ones(2, 3)
    for tensors, dim in (([x, torch.ones(2, 2)], 0), ([x, torch.ones(2)], 0), ([x, torch.tensor(1.0)], 0), ([x], 2)):
        with pytest.raises((RuntimeError, IndexError)) as wanted:
            torch.cat(tensors, dim)
        with pytest.raises(type(wanted.value)):
            torch.cat([t.to(device) for t in tensors], dim)
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([x.to(device), x])
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([x, x.to(device)])
