"""One forgotten `.to(device)`: a call with tensors of two devices is an error, or does what it does on torch.cuda.

Every operator of PyTorch's database is called with one of its tensors left on the CPU, each of them in turn.
"""

import re

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._pytree import tree_flatten, tree_unflatten

from opinfo_compare import compare, tolerances
from opinfo_runner import ENTRIES, _copy, _has_values, _move, call_entry, forward_dtype, pick_samples

SAMPLES = 2
SHARDS = 12

# PyTorch's own words, where it asks before a kernel is called.
REFUSED = re.compile(
    r"same device|Expected tensor to have \S+ Device(Type)?, but got|expected tensor_indices_or_sections to be on cpu"
    r"|Input type \(.*\) and weight type \(.*\) should be the same"
)

# Entries that accept a tensor on the CPU, or the only one on the device: cause -> entry -> positions among the leaves
# of the sample's arguments. Nothing else is accepted, and each of these is.
ACCEPTED = {
    "its shape alone is read": {
        "expand_as": {0, 1}, "reshape_as": {0, 1}, "view_as": {0, 1}, "resize_as_": {0, 1}, "to": {0, 1},
    },
    "each argument has a result of its own": {
        "atleast_1d": {0, 1, 2, 3}, "atleast_2d": {0, 1, 2, 3}, "atleast_3d": {0, 1, 2, 3},
        "broadcast_tensors": {0, 1, 2, 3},
    },
    "the source is copied, as copy_ does": {
        "as_strided_scatter": {0, 1}, "diagonal_scatter": {0, 1}, "select_scatter": {0, 1}, "slice_scatter": {0, 1},
    },
    "indices may lie on the CPU": {
        "index_put": {1}, "_unsafe_masked_index": {2, 3, 4}, "_unsafe_masked_index_put_accumulate": {2, 3, 4},
    },
    "PyTorch reads the other argument on the CPU": {"narrow": {0}, "tensor_split": {1}},
    "PyTorch moves the targets and reads the lengths on the CPU": {"nn.functional.ctc_loss": {0, 1, 2, 3}},
    "a factor of 0 leaves the argument unread": {"addr": {0}},
    "a matrix without elements leaves the tolerance unread": {"linalg.pinv": {0}},
}  # fmt: skip
LISTED = {name: positions for entries in ACCEPTED.values() for name, positions in entries.items()}


def outcomes(name: str):
    """(position, whether it was refused, what else was wrong) for each tensor of each sample, left on the CPU."""
    op = ENTRIES[name]
    for sample in pick_samples(op, forward_dtype(op), SAMPLES, False):
        leaves, spec = tree_flatten((sample.input, list(sample.args), sample.kwargs))
        tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if len(tensors) < 2 or any(leaves[i].layout != torch.strided for i in tensors):
            continue

        def call(stays, leaves=leaves, spec=spec):
            values = [_copy(leaf) if stays in (i, None) else _move(leaf) for i, leaf in enumerate(leaves)]
            first, rest, kwargs = tree_unflatten(values, spec)
            torch.manual_seed(77)
            return call_entry(op, "forward", (first, *rest), kwargs)

        try:
            expected = call(None)
        except Exception:
            continue  # the CPU itself refuses this sample
        for i in tensors:
            if leaves[i].dim() == 0:
                continue  # a scalar may be on the CPU
            try:
                actual = call(i)
                torch.aule.synchronize()
            except Exception as error:
                text = " ".join(str(error).split())
                yield i, True, "" if REFUSED.search(text) else f"{type(error).__name__}: {text[:300]}"
                continue
            found = compare(actual, expected, _has_values(op, sample), tolerances(op, forward_dtype(op)))
            yield i, False, found.message


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.filterwarnings("ignore:aule. operator:UserWarning")
def test_each_tensor_of_the_database(device, not_strict, shard):
    refused, wrong = 0, []
    for name in list(ENTRIES)[shard::SHARDS]:
        accepted = set()
        for position, is_refused, message in outcomes(name):
            refused += is_refused
            if not is_refused:
                accepted.add(position)
            if message:
                wrong.append(f"{name}, tensor {position}: {message}")
        if accepted != LISTED.get(name, set()):
            wrong.append(f"{name} accepts {accepted or 'none'}, listed: {LISTED.get(name)}")
    assert not wrong, "\n".join(wrong)
    assert refused > 30


SAME = "Expected all tensors to be on the same device, but found at least two devices, aule:0 and cpu!"
INDICES = r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\)"


def test_indices_on_the_device_of_a_tensor_on_the_host(device):
    x, i, v = torch.randn(5, 3), torch.tensor([0, 2], device=device), torch.zeros(2, 3)
    mask = x.to(device) > 0
    kept = x.clone()
    for index in (i, mask, (i, i), (slice(None), i)):
        with pytest.raises(RuntimeError, match=INDICES):
            x[index]
        for value in (1.0, torch.tensor(1.0), torch.tensor(1.0, device=device)):
            with pytest.raises(RuntimeError, match=INDICES):
                x[index] = value
    for value in (v, v.to(device)):
        for accumulate in (False, True):
            with pytest.raises(RuntimeError, match=INDICES):
                x.index_put_((i,), value, accumulate)
    with pytest.raises(RuntimeError, match=SAME):
        x.to(device).index_put_((i,), v)
    assert torch.equal(x, kept)
    y = x.to(device)
    assert torch.equal(y[i.cpu()].cpu(), x[i.cpu()]) and torch.equal(y[x > 0].cpu(), x[x > 0])
    y[i.cpu()] = torch.tensor(2.0)
    assert y[i].eq(2).all()


@pytest.mark.parametrize("training", [False, True])
def test_running_statistics_on_the_host(device, training):
    x, mean, var = torch.randn(4, 3, 5, device=device, requires_grad=True), torch.zeros(3), torch.ones(3)
    for left, right in ((mean, var), (mean.to(device), var), (mean, var.to(device))):
        with pytest.raises(RuntimeError, match=SAME):
            F.batch_norm(x, left, right, training=training)
        with pytest.raises(RuntimeError, match=SAME):
            F.instance_norm(x, left, right, use_input_stats=training)
    saved = torch.zeros(3, device=device)
    with pytest.raises(RuntimeError, match=SAME):
        torch.ops.aten.native_batch_norm_backward(x, x, None, mean, var, saved, saved, training, 1e-5, [True] * 3)
    assert mean.eq(0).all() and var.eq(1).all()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("module", [nn.Conv1d, nn.ConvTranspose1d])
def test_a_module_on_the_device_called_with_an_input_on_the_host(device, not_strict, module, bias):
    layer, x = module(3, 2, 2, bias=bias).to(device), torch.randn(1, 3, 4)
    with pytest.raises(RuntimeError, match=SAME):
        layer(x)
    with pytest.raises(RuntimeError, match=SAME):
        layer.cpu()(x.to(device))


def test_results_on_the_host(device):
    x, out, scalar = torch.randn(3, device=device), torch.zeros(3), torch.zeros(())
    with pytest.raises(RuntimeError, match=SAME):
        torch.add(x, x, out=out)
    with pytest.raises(RuntimeError, match=SAME):
        torch.sum(x, 0, out=scalar)
    with pytest.raises(RuntimeError, match=SAME):
        scalar.add_(x[0])
    with pytest.raises(RuntimeError, match=SAME):
        torch.add(out, x[0])
    assert out.eq(0).all() and scalar == 0


def test_what_may_lie_on_the_host(device, not_strict):
    x = torch.randn(3, 2, 4)
    y = x.to(device)
    assert torch.equal((y + torch.tensor(1.0)).cpu(), x + 1)
    both, one = torch._foreach_add([y, x], [y, x])  # PyTorch's loop calls the operator for each pair
    assert both.device.type == "aule" and torch.equal(both.cpu(), one)
    lengths = torch.tensor([3, 2])
    packed = nn.utils.rnn.pack_padded_sequence(y, lengths)
    assert torch.equal(packed.data.cpu(), nn.utils.rnn.pack_padded_sequence(x, lengths).data)
    with pytest.raises(RuntimeError, match=SAME):
        torch._foreach_add([y, y], [y, x])
