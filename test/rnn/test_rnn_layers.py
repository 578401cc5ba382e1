"""Whole recurrent layers against float64 on the CPU. Kernels: recurrent_forward, recurrent_backward, recurrent_carry,
resident_forward, resident_backward, gemm_simt_splits."""

import copy
import functools
import random

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from helpers import FLOATS, RELATIVE_TOLERANCES, check_program, launches, relative_error, to_device, without

KINDS = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}
# More than one operation of the table's tolerance: a chain of as many as there are steps.
TOLERANCES = {dtype: 3 * tolerance for dtype, tolerance in RELATIVE_TOLERANCES.items()} | {torch.float64: 1e-13}


def is_rounded_relu(kind, dtype):
    return kind == "relu" and dtype in (torch.float16, torch.bfloat16)


def pair(kind, *sizes, dtype=torch.float32, **options):
    """The same weights on the device, and in float64 on the CPU.

    Sums that are rounded to 16 bits may change their sign, and with it a relu's gradient: there weights are positive.
    """
    module, more = KINDS[kind]
    model = module(*sizes, **more, **options).to(dtype)
    if is_rounded_relu(kind, dtype):
        for parameter in model.parameters():
            parameter.data.abs_()
    return copy.deepcopy(model).to("aule"), copy.deepcopy(model).double()


def states(kind, model, batch, dtype):
    """Random first states, as the module takes them."""
    both = 2 if model.bidirectional else 1
    h = torch.randn(model.num_layers * both, batch, model.proj_size or model.hidden_size).to(dtype)
    c = torch.randn(model.num_layers * both, batch, model.hidden_size).to(dtype)
    return (h, c) if kind == "lstm" else (h,)


def poison():
    """Fill what the allocator hands out next with NaNs."""
    blocks = [torch.full((size,), float("nan"), device="aule") for size in (100, 1000, 10_000) for _ in range(16)]
    blocks.clear()


def run(model, x, first, seeds=None, wanted=None):
    """Results, and the gradients of inputs, states and weights weighted by `seeds`."""
    hx = None if first is None else first if len(first) > 1 else first[0]
    out, last = model(x, hx)
    out = out.data if isinstance(out, nn.utils.rnn.PackedSequence) else out
    results = [out, *(last if isinstance(last, tuple) else (last,))]
    if seeds is None:
        return results, []
    wanted = list(wanted) + list(model.parameters())
    return results, torch.autograd.grad(results, wanted, seeds)


def check_close(actual, expected, dtype, scale=1e-30):
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert a.dtype == dtype
        error = relative_error(a, e, scale)
        assert error <= TOLERANCES[dtype], f"{i}: relative error {error}"


def check(kind, x, first, own, reference, dtype, packed=None):
    """Results and gradients of both; `packed` makes a packed sequence of x."""
    packed = packed or (lambda t: t)
    if is_rounded_relu(kind, dtype):
        x, first = x.abs(), first and [s.abs() for s in first]
    x_own, x_reference = to_device(x).requires_grad_(), x.double().requires_grad_()
    first_own = [s.requires_grad_() for s in to_device(list(first))] if first else []
    first_reference = [s.double().requires_grad_() for s in first] if first else []
    expected, _ = run(reference, packed(x_reference), first_reference or None)
    seeds = [torch.randn(e.shape).to(dtype) for e in expected]
    if is_rounded_relu(kind, dtype):  # what positive weights have added up, seeds of both signs take away again
        seeds = [seed.abs() for seed in seeds]
    poison()
    actual, grads = run(own, packed(x_own), first_own or None, to_device(seeds), [x_own, *first_own])
    expected, expected_grads = run(
        reference, packed(x_reference), first_reference or None, [s.double() for s in seeds],
        [x_reference, *first_reference],
    )  # fmt: skip
    check_close(actual, expected, dtype)
    check_close(grads, expected_grads, dtype)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False, "batch_first": True}],
    ids=["plain", "both ways", "no bias"],
)
def test_against_float64(kind, options, dtype):
    own, reference = pair(kind, 5, 7, dtype=dtype, **options)
    x = torch.randn(6, 3, 5).to(dtype)
    batch = 6 if options.get("batch_first") else 3
    check(kind, x, states(kind, own, batch, dtype), own, reference, dtype)
    check(kind, x, None, own, reference, dtype)


@pytest.mark.float64
@pytest.mark.validated
@pytest.mark.parametrize("kind", KINDS)
def test_float64(kind):
    """Batches and sizes that fill no workgroup, packed and not, both ways, and a projection."""
    for options in ({}, {"bidirectional": True, "num_layers": 2}, {"proj_size": 3}):
        if "proj_size" in options and kind != "lstm":
            continue
        own, reference = pair(kind, 5, 7, dtype=torch.float64, **options)
        x = torch.randn(6, 3, 5, dtype=torch.float64)
        check(kind, x, states(kind, own, 3, torch.float64), own, reference, torch.float64)
        pack = functools.partial(pack_padded_sequence, lengths=[6, 4, 1])
        check(kind, x, states(kind, own, 3, torch.float64), own, reference, torch.float64, pack)
    small = torch.linspace(-0.11, 0.11, 1000, dtype=torch.float64).view(1, -1, 1)  # tanh between its two formulas
    own, reference = pair("tanh", 1, 1, dtype=torch.float64, bias=False)
    check("tanh", small, None, own, reference, torch.float64)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2, "bias": False}], ids=["one", "both"])
def test_projections(options, dtype):
    own, reference = pair("lstm", 5, 9, dtype=dtype, proj_size=4, **options)
    x = torch.randn(5, 3, 5).to(dtype)
    check("lstm", x, states("lstm", own, 3, dtype), own, reference, dtype)


@pytest.mark.current_long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "times,batch,features,hidden", [(1, 1, 1, 1), (1, 9, 3, 33), (12, 1, 7, 7), (4, 19, 1, 32), (3, 40, 65, 40)]
)
def test_sizes(kind, times, batch, features, hidden):
    own, reference = pair(kind, features, hidden, bidirectional=random.random() < 0.5)
    x = torch.randn(times, batch, features)
    check(kind, x, states(kind, own, batch, torch.float32), own, reference, torch.float32)


@pytest.mark.current_long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "kind,times,batch,hidden,both", [("lstm", 23, 3, 96, True), ("gru", 5, 1, 128, False), ("tanh", 4, 5, 180, True)]
)
def test_resident(kind, times, batch, hidden, both, dtype):
    """More weights than registers hold, an odd number of sequences, more steps than a dispatch has."""
    own, reference = pair(kind, 6, hidden, dtype=dtype, bidirectional=both)
    x = torch.randn(times, batch, 6).to(dtype)
    check(kind, x, states(kind, own, batch, dtype), own, reference, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_layouts(kind):
    """Inputs and states by other strides, and gradients of results that lie otherwise."""
    own, reference = pair(kind, 6, 5, num_layers=2)
    wide = torch.randn(3, 4, 15)
    x = wide.transpose(0, 1)[:, :, 2::2][:, :, :6]
    first = [s.transpose(1, 2).contiguous().transpose(1, 2) for s in states(kind, own, 3, torch.float32)]
    check(kind, x, first, own, reference, torch.float32)


@pytest.mark.validated
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[5, 5, 3, 1, 1], [1, 1], [2, 7, 1, 4], [3]], ids=str)
def test_packed(kind, lengths):
    """Ties, sequences of one step, an order of their own; no row of padding is read."""
    own, reference = pair(kind, 4, 6, num_layers=2, bidirectional=True)
    x = torch.randn(max(lengths), len(lengths), 4)
    for i, length in enumerate(lengths):
        x[length:, i] = float("nan")

    def packed(t):
        return pack_padded_sequence(t, lengths, enforce_sorted=False)

    x_own, x_reference = x.to("aule").requires_grad_(), x.double().requires_grad_()
    results = {}
    for name, model, t in (("own", own, x_own), ("reference", reference, x_reference)):
        out, last = model(packed(t))
        results[name] = [pad_packed_sequence(out)[0], *(last if isinstance(last, tuple) else (last,))]
    check_close(results["own"], results["reference"], torch.float32)
    seeds = [torch.randn(e.shape) for e in results["reference"]]
    grads = torch.autograd.grad(results["own"], [x_own, *own.parameters()], to_device(seeds))
    expected = torch.autograd.grad(
        results["reference"], [x_reference, *reference.parameters()], [s.double() for s in seeds]
    )
    check_close(grads, expected, torch.float32)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_packed_states(kind, dtype):
    """First states, whose gradients end with their sequences; projections."""
    options = {"proj_size": 3} if kind == "lstm" else {}
    own, reference = pair(kind, 4, 6, dtype=dtype, bidirectional=True, **options)
    lengths = [6, 4, 4, 2, 1]
    x = torch.randn(sum(lengths), 4).to(dtype)
    sizes = torch.tensor([sum(length > t for length in lengths) for t in range(max(lengths))])

    def packed(t):
        return nn.utils.rnn.PackedSequence(t, sizes)

    check(kind, x, states(kind, own, len(lengths), dtype), own, reference, dtype, packed)


def test_dropout_between_layers():
    """The layers one after the other, with the same mask; none after the last one, none in evaluation."""
    model = nn.LSTM(5, 8, num_layers=2, dropout=0.4).to("aule")
    x = torch.randn(7, 3, 5, device="aule")
    first, second = nn.LSTM(5, 8).to("aule"), nn.LSTM(8, 8).to("aule")
    for i, layer in enumerate((first, second)):
        layer.load_state_dict({k: getattr(model, k.replace("l0", f"l{i}")) for k in layer.state_dict()})
    torch.manual_seed(3)
    out, (h, c) = model(x)
    torch.manual_seed(3)
    between, (h0, c0) = first(x)
    expected, (h1, c1) = second(nn.functional.dropout(between, 0.4, training=True))
    assert torch.equal(out, expected)
    assert torch.equal(h, torch.cat([h0, h1])) and torch.equal(c, torch.cat([c0, c1]))
    grads = torch.autograd.grad(out.sum(), list(model.parameters()))
    expected_grads = torch.autograd.grad(expected.sum(), [*first.parameters(), *second.parameters()])
    for a, e in zip(grads, expected_grads, strict=True):
        assert torch.equal(a, e)
    model.eval()
    assert torch.equal(model(x)[0], second(between)[0])


def test_gradients_of_some():
    """Of what is wanted alone, and the same twice."""
    own, reference = pair("gru", 5, 6, num_layers=2)
    x, h = torch.randn(4, 3, 5), torch.randn(2, 3, 6)
    for frozen in (["weight_ih_l0", "bias_hh_l1"], [n for n, _ in own.named_parameters()], ["weight_hh_l0"]):
        for needs_x, needs_h in ((True, False), (False, True)):
            results = []
            for model, cast in ((own, lambda t: t.to("aule")), (reference, lambda t: t.double())):
                for name, parameter in model.named_parameters():
                    parameter.requires_grad_(name not in frozen)
                xs, hs = cast(x).requires_grad_(needs_x), cast(h).requires_grad_(needs_h)
                wanted = [t for t in (xs, hs, *model.parameters()) if t.requires_grad]
                out, last = model(xs, hs)
                loss = out.square().sum() + last.sum()
                once = torch.autograd.grad(loss, wanted, retain_graph=True)
                assert all(torch.equal(a, b) for a, b in zip(once, torch.autograd.grad(loss, wanted), strict=True))
                results.append(once)
            check_close(*results, torch.float32)


def test_gradient_of_one_result():
    own, reference = pair("lstm", 3, 4, bidirectional=True)
    x = torch.randn(5, 2, 3)
    for which in range(3):
        results = []
        for model, t in ((own, x.to("aule")), (reference, x.double())):
            t.requires_grad_()
            out, (h, c) = model(t)
            results.append(torch.autograd.grad((out, h, c)[which].square().sum(), [t, *model.parameters()]))
        check_close(*results, torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_double_backward(kind):
    own, reference = pair(kind, 3, 4, num_layers=2)
    x = torch.randn(4, 2, 3)
    results = []
    for model, t in ((own, x.to("aule")), (reference, x.double())):
        t.requires_grad_()
        out = model(t)[0]
        wanted = [t, *model.parameters()]
        first = torch.autograd.grad(out.square().sum(), wanted, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), wanted, allow_unused=True)
        results.append([*first, *(s for s in second if s is not None)])
    check_close(*results, torch.float32)


def test_nothing_is_kept_without_gradients():
    """Inference takes two kernels a step, and leaves the outputs alone in memory."""
    model = nn.LSTM(8, 16, num_layers=2).to("aule")
    x = torch.randn(20, 4, 8, device="aule")
    expected = model(x)[0]
    assert expected.requires_grad
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            out, _ = model(x)
            assert not out.requires_grad and torch.equal(out, expected)
            count = launches(lambda: model(x))
            assert count <= 2 * 2 * 20 + 20, count
    with torch.inference_mode():
        assert torch.equal(model(x.clone())[0], expected)


def test_autocast():
    model = nn.LSTM(5, 7, bidirectional=True).to("aule")
    reference = copy.deepcopy(model).cpu().double()
    x = torch.randn(6, 3, 5)
    with torch.autocast("aule", dtype=torch.bfloat16):
        out, (h, c) = model(x.to("aule"))
    assert out.dtype == h.dtype == c.dtype == torch.bfloat16
    expected, _ = reference(x.double())
    check_close([out], [expected], torch.bfloat16)
    out.float().sum().backward()
    expected.sum().backward()
    grads = [p.grad for p in model.parameters()]
    for actual, e in zip(grads, (p.grad for p in reference.parameters()), strict=True):
        assert actual.dtype == torch.float32 and relative_error(actual, e) <= TOLERANCES[torch.bfloat16]


def test_traced_and_transformed():
    """torch.compile and torch.func see PyTorch's own operators, of which the layers are made."""
    model = nn.GRU(4, 5).to("aule")
    x = torch.randn(3, 2, 4, device="aule")
    expected = model(x)[0]
    compiled = torch.compile(lambda t: model(t)[0], backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    params = {k: v.detach() for k, v in model.named_parameters()}

    def loss(params):
        return torch.func.functional_call(model, params, (x,))[0].square().sum()

    grads = torch.func.grad(loss)(params)
    expected_grads = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    for a, e in zip(grads.values(), expected_grads, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)


def test_empty_batch_and_refusals():
    model = nn.LSTM(4, 5).to("aule")
    out, (h, c) = model(torch.randn(3, 0, 4, device="aule"))
    assert out.shape == (3, 0, 5) and h.shape == c.shape == (1, 0, 5)
    x, weights = torch.randn(3, 2, 4, device="aule"), [p.detach() for p in model.parameters()]
    h = torch.zeros(1, 2, 5, device="aule")
    with pytest.raises(RuntimeError, match="two hidden states"):
        torch.lstm(x, [h], weights, True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError):
        torch.lstm(x, [h, h], weights[:3], True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError):
        torch.lstm(x, [h, h.double()], weights, True, 1, 0.0, False, False, False)


@pytest.mark.validated
def test_kernels_of_gpus():
    """The product with splits of k and workgroups that keep their sequences, which lavapipe is not given otherwise."""
    check_program("rnn_of_gpus", __file__, **without("subgroup_shuffle"))


@pytest.mark.without_shuffles
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matrix_units(dtype):
    """Sums of products with cooperative matrices, added by the gates' kernels."""
    own, reference = pair("lstm", 24, 40, dtype=dtype, bidirectional=True)
    x = torch.randn(3, 37, 24).to(dtype)
    check("lstm", x, states("lstm", own, 37, dtype), own, reference, dtype)
