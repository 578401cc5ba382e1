"""Kernels that torch.compile generates for GPUs: columns by vectors, and rows that begin anywhere."""

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

from torch._inductor.utils import run_and_get_code, run_fw_bw_and_get_code  # noqa: E402

from torch_aule.compile.codegen import facts  # noqa: E402

pytestmark = pytest.mark.usefixtures("as_gpu", "fresh_compiler")
TOLERANCE = {torch.float32: 3e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
COLUMNS, ROWS = "u) * 4ul;", "const int row_base ="


def check(device, function, *inputs, form, dtype=torch.float32, tolerance=None):
    """Compiled against float64; the code has the text `form`, of the form that is meant."""
    own = [x.to(dtype).to(device) if x.is_floating_point() else x.to(device) for x in inputs]
    wide = [x.cpu().double() if x.is_floating_point() else x.cpu() for x in own]
    actual, codes = run_and_get_code(torch.compile(function, fullgraph=True), *own)
    assert any(form in code for code in codes), "another form"
    flat, wanted = (torch.utils._pytree.tree_leaves(x) for x in (actual, function(*wide)))
    assert len(flat) == len(wanted)
    for a, e in zip(flat, wanted, strict=True):
        limit = tolerance or TOLERANCE[dtype]
        scale = e.abs().max().clamp(min=1).item() if e.is_floating_point() else 0
        assert_close(a.double() if e.is_floating_point() else a, e, rtol=limit, atol=limit * scale)


def gelu_gradient(g, x):
    return torch.ops.aten.gelu_backward(g, x).sum(0)


def norm_gradients(g, x, mean, rstd):
    normal = (x - mean) * rstd
    return (g * normal).sum(0), g.sum(0)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows, columns", [(9, 8), (37, 64), (300, 20), (5001, 64), (64, 1536)])
def test_sums_of_columns(device, dtype, rows, columns):
    x = torch.randn(rows, columns, dtype=torch.float64)
    check(device, lambda x: (x * 2).sum(0), x, form=COLUMNS, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_that_sum_over_rows(device, dtype):
    g, x = torch.randn(2, 700, 96, dtype=torch.float64)
    mean, rstd = torch.randn(700, 1, dtype=torch.float64), torch.rand(700, 1, dtype=torch.float64) + 0.5
    check(device, gelu_gradient, g, x, form=COLUMNS, dtype=dtype)
    torch._dynamo.reset()
    check(device, norm_gradients, g, x, mean, rstd, form=COLUMNS, dtype=dtype)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.var(0),
        lambda x: torch.var_mean(x, 0, correction=0),
        lambda x: (x.amax(0), x.amin(0)),
        lambda x: x.argmax(0),
        lambda x: x.argmin(0),
        lambda x: (x > 0).sum(0),
        lambda x: (x > 3).any(0),
        lambda x: x.sum(0) / x.shape[0] + x.amax(0),
        lambda x: torch.cat([x[:9], x[9:18] * 2]).sum(0),  # more rows are split in two sums on large GPUs
    ],
    ids=["var", "var_mean", "extremes", "argmax", "argmin", "count", "any", "two", "cat"],
)
def test_reductions_of_columns(device, function):
    check(device, function, torch.randn(150, 40, dtype=torch.float64), form=COLUMNS)


def test_nan_in_one_column(device):
    x = torch.randn(33, 16, dtype=torch.float64)
    x[5, 3] = torch.nan
    check(device, lambda x: (x.amax(0), x.sum(0)), x.nan_to_num(), form=COLUMNS)
    torch._dynamo.reset()
    found = torch.compile(lambda x: (x.amax(0), x.sum(0)))(x.float().to(device))
    for result in found:
        assert result.isnan().nonzero().tolist() == [[3]]


def test_columns_of_parts_and_views(device):
    x, y = torch.randn(6, 50, 32, dtype=torch.float64), torch.randn(50, 64, dtype=torch.float64)
    check(device, lambda x: x.mean(1), x, form=COLUMNS)
    torch._dynamo.reset()
    check(device, lambda y: (y[:, ::2] * y[:, 32:]).sum(0), y, form=COLUMNS)
    torch._dynamo.reset()
    check(device, lambda x, y: (x[2] + y[:, 4:36]).sum(0), x, y, form=COLUMNS)


def test_columns_of_unaligned_tensors(device):
    """An offset of one element: the loads that were vectors must not be."""
    base = torch.randn(40 * 32 + 1, dtype=torch.float64)
    f = torch.compile(lambda x: x.sum(0))
    for offset in (0, 1):
        x = base.float().to(device)[offset : offset + 1280].view(40, 32)
        assert_close(f(x).double(), base[offset : offset + 1280].view(40, 32).sum(0), rtol=3e-5, atol=3e-5)


def test_more_sums_than_shared_memory_holds(device):
    """Four kilobytes for each sum: one column at a time where they do not fit."""
    x = torch.randn(40, 32)
    for count, fits in ((2, True), (3, False)):
        torch._dynamo.reset()
        f = torch.compile(lambda x, count=count: [(x + k).sum(0) for k in range(count)])
        with facts.override(shared_bytes=8192):
            actual, codes = run_and_get_code(f, x.to(device))
        assert any("acc1_shared[1024]" in code for code in codes) == fits
        for k, a in enumerate(actual):
            assert_close(a.double(), (x.double() + k).sum(0), rtol=1e-5, atol=1e-4)


def softmax_gradient(x, row, gradient):
    """Of logits of which the last of each text is left out."""
    wide = x if x.dtype == torch.float64 else x.float()
    return F.pad(torch.exp(wide[:, :-1] - row) * gradient, (0, 0, 0, 1)).to(x.dtype)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [1025, 1031, 4099])
def test_rows_that_begin_anywhere(device, dtype, n):
    x, y = torch.randn(2, 7, n, dtype=torch.float64)
    row, column = torch.randn(7, 1, dtype=torch.float64), torch.randn(n, dtype=torch.float64)
    check(device, lambda x, y, r, c: torch.tanh(x) * r + y * c, x, y, row, column, form=ROWS, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_are_partly_left_out(device, dtype):
    x, row = torch.randn(3, 5, 1031, dtype=torch.float64), torch.randn(3, 4, 1, dtype=torch.float64)
    gradient = torch.randn(3, 4, 1, dtype=torch.float64)
    check(device, softmax_gradient, x, row, gradient, form=ROWS, dtype=dtype)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 1:] * 2 + x[:, :-1],
        lambda x: F.pad(x, (3, 4)) + 1,
        lambda x: torch.cat([x * 2, x[:, :3] - 1], 1),
        lambda x: x.flip(1) + x,
        lambda x: (x > 0, x.double().float() + 1),
        lambda x: torch.where(x[:, 1:] > x[:, :1], x[:, 1:], torch.arange(1, x.shape[1], device=x.device)),
        lambda x: (x[:, 1:].to(torch.int32), x[:, 1:].abs()),
    ],
    ids=["shifted", "pad", "cat", "flip", "bool", "index", "int"],
)
def test_views_of_long_odd_rows(device, function):
    x = torch.randn(5, 1030, dtype=torch.float64)
    own = x.float().to(device)
    actual = torch.compile(function, fullgraph=True)(own)
    expected = function(own)
    for a, e in zip(*(torch.utils._pytree.tree_leaves(r) for r in (actual, expected)), strict=True):
        assert_close(a, e.cpu(), rtol=1e-6, atol=1e-6)


def test_long_odd_rows_are_changed_in_place(device):
    x, row = torch.randn(6, 1027), torch.randn(6, 1)

    def change(x, row):
        x.mul_(row).add_(x[:, :1] * 0 + 1)
        return x * 2

    own = x.clone().to(device)
    twice = torch.compile(change)(own, row.to(device))
    expected = x * row + 1
    assert_close(own, expected, rtol=1e-6, atol=1e-6)
    assert_close(twice, expected * 2, rtol=1e-6, atol=1e-6)


def test_softmax_of_no_dimension(device):
    x = torch.randn((), device=device)
    assert torch.compile(lambda x: torch.softmax(x, 0))(x).item() == 1
    assert torch.compile(lambda x: torch.log_softmax(x, -1))(x).item() == 0


def test_long_odd_rows_of_eight_bytes(device):
    """Read between the places where vectors begin."""
    x = torch.randint(-(2**40), 2**40, (5, 1030))
    f = torch.compile(lambda x: (x[:, 1:] % 3).to(torch.int16) + (x[:, :-1] > 0))
    assert (f(x.to(device)).cpu() == (x[:, 1:] % 3).to(torch.int16) + (x[:, :-1] > 0)).all()


def padded_to(codes, stride):
    """Whether a kernel's rows are `stride` apart, and begin with vectors."""
    return any(f"{stride}*x" in code and "load_words(" in code and "store_words(" in code for code in codes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("n", [1031, 2050, 4099])
def test_padded_rows_between_products(device, n):
    """Inductor pads rows that a product writes and the next one reads; inputs beside them are not padded."""
    x, y = torch.randn(2, 2, 33, n, dtype=torch.float64).bfloat16()
    w = (torch.randn(n, 24, dtype=torch.float64) / n**0.5).bfloat16()

    def function(x, y, w):
        h = (F.gelu(x) * y) @ w
        back = h @ w.t()
        return (torch.tanh(back) * x + y) @ w, back.flatten(0, 1).view(33, 2, n).sum(1), (back * y).sum(-1)

    own = [t.to(device).requires_grad_() for t in (x, y, w)]
    wide = [t.double().requires_grad_() for t in (x, y, w)]
    compiled, actual = torch.compile(function, fullgraph=True), []

    def run():
        actual.extend(compiled(*own))
        return sum(a.float().sum() for a in actual)

    _, codes = run_fw_bw_and_get_code(run)
    assert padded_to(codes, -(-n // 64) * 64)
    expected = function(*wide)
    sum(e.sum() for e in expected).backward()
    for a, e in zip([*actual, *(t.grad for t in own)], [*expected, *(t.grad for t in wide)], strict=True):
        assert_close(a.detach().double(), e.detach(), rtol=0.03, atol=0.03 * e.abs().max().item())


def test_gradient_of_padded_logits(device):
    """A vocabulary of odd size: logits and their gradient are padded, and read and written by vectors alone.

    Inductor of 2.13 pads the logits, but leaves the gradient of the slice as it is: its rows begin anywhere.
    """
    n, classes = 20, 2053
    x, w = torch.randn(2, 9, n), torch.randn(classes, n)
    labels = torch.randint(0, classes, (2, 9))

    def loss(x, w, labels):
        logits = F.linear(x, w)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())

    own = [t.bfloat16().to(device).requires_grad_() for t in (x, w)]
    wide = [t.detach().cpu().float().requires_grad_() for t in own]
    actual, codes = run_fw_bw_and_get_code(lambda: torch.compile(loss, fullgraph=True)(*own, labels.to(device)))
    assert any("(18, 2053), (2112, 1)" in code for code in codes)
    if torch.torch_version.TorchVersion(torch.__version__) < (2, 13):
        assert padded_to(codes, 2112) and not any("load_any_words(" in code for code in codes)
    expected = loss(*wide, labels)
    expected.backward()
    assert_close(actual, expected.detach(), rtol=1e-2, atol=1e-2)
    for a, e in zip(own, wide, strict=True):
        assert_close(a.grad.float(), e.grad, rtol=0.03, atol=0.03 * e.grad.abs().max().item())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
@pytest.mark.parametrize("offset", range(1, 9))
def test_vectors_that_begin_anywhere(device, dtype, offset):
    x = torch.randn(3, 1040).mul(20).to(dtype)
    f = torch.compile(lambda x: x[:, offset : offset + 1030] + x[:, :1030])
    assert_close(f(x.to(device)), x[:, offset : offset + 1030] + x[:, :1030])
