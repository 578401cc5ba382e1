"""Jagged tensors: torch.nested with layout=torch.jagged. Attention over them is that of packed sequences."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, INTS, RELATIVE_TOLERANCES, relative_error

pytestmark = pytest.mark.validated

LENGTHS = [3, 0, 7, 1, 26]


def sequences(*sizes, lengths=LENGTHS, dtype=torch.float32):
    """Random sequences of these lengths, on the CPU."""
    return [torch.randn(n, *sizes).to(dtype) for n in lengths]


def jagged(parts, device, requires_grad=False):
    moved = [t.detach().to(device) for t in parts]
    return torch.nested.nested_tensor(moved, layout=torch.jagged, requires_grad=requires_grad)


def check_parts(actual, expected, tolerance=1e-5):
    parts = actual.unbind()
    assert len(parts) == len(expected)
    for a, e in zip(parts, expected, strict=True):
        assert relative_error(a, e, 1.0) <= tolerance


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("sizes", [(), (5,), (2, 3)], ids=str)
def test_padding_there_and_back(device, dtype, sizes):
    def moved(where):
        made = torch.nested.nested_tensor([t.to(where) for t in parts], layout=torch.jagged)
        return made, made.to_padded_tensor(padding), torch.nested.to_padded_tensor(made, padding, (5, 30, *sizes))

    values = torch.randint(0, 2 if dtype == torch.bool else 100, (sum(LENGTHS), *sizes))
    parts = [t.to(dtype) for t in values.split(LENGTHS)]
    padding = 1 if dtype == torch.bool else 7
    nested, padded, longer = moved(device)
    for actual, length in ((padded, 26), (longer, 30)):
        expected = torch.full((5, length, *sizes), padding, dtype=dtype)
        for row, part in zip(expected, parts, strict=True):
            row[: len(part)] = part
        assert actual.dtype == dtype and torch.equal(actual.cpu(), expected)
    assert all(torch.equal(a.cpu(), e) for a, e in zip(nested.unbind(), parts, strict=True))
    from torch.nested._internal.nested_tensor import nested_from_padded

    back = nested_from_padded(longer, nested.offsets())
    assert torch.equal(back.values().cpu(), torch.cat(parts))


def test_padding_operators(device):
    """Offsets of int32, sequences longer than the padding, rows of no sequence, no rows."""
    values, ends = torch.randn(11, 4), [2, 5, 5, 9]
    own = values.to(device)
    for dtype in (torch.int32, torch.int64):
        offsets = torch.tensor(ends, dtype=dtype, device=device)
        padded = torch.ops.aten._jagged_to_padded_dense_forward(own, [offsets], [2], -1.0).cpu()
        expected = torch.full((3, 2, 4), -1.0)
        expected[0], expected[2] = values[2:4], values[5:7]
        assert torch.equal(padded, expected)
        back = torch.ops.aten._padded_dense_to_jagged_forward(padded.to(device), [offsets], 11).cpu()
        expected = torch.zeros(11, 4)
        expected[2:4], expected[5:7] = values[2:4], values[5:7]
        assert torch.equal(back, expected)
        assert torch.ops.aten._padded_dense_to_jagged_forward(padded.to(device), [offsets]).shape == (9, 4)
        none = torch.ops.aten._jagged_to_padded_dense_forward(own[:0], [offsets.new_zeros(3)], [2], 3.0)
        assert torch.equal(none.cpu(), torch.full((2, 2, 4), 3.0))
        wild = torch.tensor([0, 2**31 - 1, -5], dtype=dtype, device=device)
        assert torch.ops.aten._jagged_to_padded_dense_forward(own, [wild], [3], 0.0).cpu()[1].eq(0).all()


def test_pointwise_and_reductions(device):
    parts = sequences(8)
    x = jagged(parts, device)
    check_parts(F.gelu(x * 2 + x) - 1, [F.gelu(t.double() * 3) - 1 for t in parts])
    check_parts(torch.softmax(x, dim=-1), [t.double().softmax(-1) for t in parts])
    assert relative_error(x.sum(dim=1), torch.stack([t.double().sum(0) for t in parts])) < 1e-5
    filled = [t for t in parts if len(t)]
    own = jagged(filled, device)
    assert relative_error(own.mean(dim=1), torch.stack([t.double().mean(0) for t in filled])) < 1e-5
    check_parts(torch.softmax(own, dim=1), [t.double().softmax(0) for t in filled])


def test_views_and_embedding(device):
    values = torch.randn(3, 9, 4)
    starts, lengths = torch.tensor([0, 3, 1]), torch.tensor([4, 2, 8])
    x = torch.nested.narrow(values.to(device), 1, starts.to(device), lengths.to(device), layout=torch.jagged)
    expected = [values[b, s : s + n] for b, (s, n) in enumerate(zip(starts.tolist(), lengths.tolist()))]
    check_parts(x.contiguous() + 0, expected)
    a, b = x.contiguous().chunk(2, dim=-1)
    check_parts(a * b, [e[:, :2] * e[:, 2:] for e in expected])
    words = [torch.randint(10, (n,)) for n in LENGTHS]
    table = torch.randn(10, 6)
    check_parts(F.embedding(jagged(words, device), table.to(device)), [table[w] for w in words])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layers_and_gradients(device, dtype):
    parts = sequences(16, dtype=dtype)
    model = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 24), torch.nn.SiLU()).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_()
    wide = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 24), torch.nn.SiLU()).double()
    wide.load_state_dict({name: p.double() for name, p in model.state_dict().items()})
    model.to(device)
    own = torch.cat(parts).to(device).requires_grad_()
    offsets = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0)], device=device)
    out = model(torch.nested.nested_tensor_from_jagged(own, offsets, min_seqlen=0, max_seqlen=26))
    reference = torch.cat(parts).double().requires_grad_()
    expected = wide(reference)
    tolerance = 3 * RELATIVE_TOLERANCES[dtype]
    check_parts(out, expected.detach().split(LENGTHS), tolerance * expected.abs().max().item())
    weight = torch.randn(5, 26, 24).to(dtype)
    (out.to_padded_tensor(0.0) * weight.to(device)).sum().backward()
    packed = torch.cat([w[:n] for w, n in zip(weight, LENGTHS)])
    (expected * packed.double()).sum().backward()
    assert relative_error(own.grad, reference.grad) <= tolerance
    for p, q in zip(model.parameters(), wide.parameters(), strict=True):
        assert relative_error(p.grad, q.grad) <= tolerance


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention(device, dtype, is_causal):
    heads, size = 3, 20  # no multiple of 8
    tolerance = 3 * RELATIVE_TOLERANCES[dtype]
    inputs = [torch.randn(sum(LENGTHS), heads * size).to(dtype) for _ in range(3)]
    offsets = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0)], device=device)
    own = [t.to(device).requires_grad_() for t in inputs]
    wide = [t.double().requires_grad_() for t in inputs]

    def heads_of(values):
        made = torch.nested.nested_tensor_from_jagged(values, offsets)
        return made.unflatten(-1, [heads, size]).transpose(1, 2)

    out = F.scaled_dot_product_attention(*map(heads_of, own), is_causal=is_causal).transpose(1, 2).flatten(-2)
    expected = []
    for q, k, v in zip(*(t.split(LENGTHS) for t in wide)):
        q, k, v = (t.unflatten(-1, [heads, size]).transpose(0, 1) for t in (q, k, v))
        rows = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal) if q.size(1) else q
        expected.append(rows.transpose(0, 1).flatten(-2))
    expected = torch.cat(expected)
    assert relative_error(out.values(), expected) <= tolerance
    weight = torch.randn(expected.shape).to(dtype)
    out.values().backward(weight.to(device))
    expected.backward(weight.double())
    for a, e in zip(own, wide, strict=True):
        assert relative_error(a.grad, e.grad) <= tolerance


def test_attention_of_other_lengths_of_keys(device):
    query, key = sequences(2, 16), sequences(2, 16, lengths=[4, 9, 1, 30, 2])
    value = [torch.randn_like(k) for k in key]
    out = F.scaled_dot_product_attention(*(jagged(t, device).transpose(1, 2) for t in (query, key, value)))
    expected = [
        F.scaled_dot_product_attention(*(t.double().transpose(0, 1) for t in parts)).transpose(0, 1)
        for parts in zip(query, key, value, strict=True)
    ]
    check_parts(out.transpose(1, 2), expected)


def test_autocast_of_attention(device):
    x = jagged(sequences(2, 16), device).transpose(1, 2)
    with torch.autocast("aule", dtype=torch.bfloat16):
        assert F.scaled_dot_product_attention(x, x, x).dtype == torch.bfloat16


def test_what_attention_does_not_take_is_refused_by_name(device):
    x = jagged(sequences(2, 16), device).transpose(1, 2)
    starts, lengths = (torch.tensor(t, device=device) for t in ([0, 2], [3, 4]))
    rows = torch.randn(2, 9, 2, 16, device=device)
    holes = torch.nested.narrow(rows, 1, starts, lengths, layout=torch.jagged).transpose(1, 2)
    for match, call in [
        ("dropout", lambda: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)),
        ("holes", lambda: F.scaled_dot_product_attention(holes, holes, holes)),
    ]:
        with pytest.raises(RuntimeError, match=match):
            call()
