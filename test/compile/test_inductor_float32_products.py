"""torch.compile asks products for float32 where their 16-bit result would only be converted, and left as that."""

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

from torch._inductor.utils import run_and_get_code, run_fw_bw_and_get_code  # noqa: E402

from torch_aule.compile import config  # noqa: E402
from torch_aule.compile.codegen import facts  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh_compiler")
HALF = [torch.float16, torch.bfloat16]


@pytest.fixture
def with_matrices(as_gpu, monkeypatch):
    """As on a GPU with matrix units, without asking the device for them."""
    monkeypatch.setattr(facts, "matrices_of", lambda index, dtype: {"usable": 1})


def wide(text) -> int:
    """Calls of products with a float32 result."""
    return "".join(text).count("aten.mm.dtype(") + "".join(text).count("aten.bmm.dtype(")


def check(device, f, count, dtype=torch.bfloat16, sizes=((40, 24), (24, 48))):
    """`f` of two matrices, compiled with so many such calls, against float64."""
    x, y = (torch.randn(*s, dtype=torch.float64).to(dtype) for s in sizes)
    actual, text = run_and_get_code(torch.compile(f, fullgraph=True), x.to(device), y.to(device))
    assert wide(text) == count
    for a, e, like in zip(*(torch.utils._pytree.tree_leaves(r) for r in (actual, f(x.double(), y.double()), f(x, y)))):
        assert a.dtype == like.dtype and a.stride() == like.stride()
        limit = 1e-5 if count and a.dtype == torch.float32 else 2e-2
        assert_close(a.double(), e.double(), rtol=limit, atol=limit * e.abs().max().item())


@pytest.mark.parametrize("dtype", HALF)
def test_a_product_that_is_converted(device, with_matrices, dtype):
    check(device, lambda x, y: (x @ y).float(), 1, dtype)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x @ y).t().float(),
        lambda x, y: (x @ y).view(5, 8, 48).float().transpose(0, 1),
        lambda x, y: (y.t() @ x.t()).float(),
        lambda x, y: torch.bmm(x.expand(3, 40, 24), y.expand(3, 24, 48)).float(),
        lambda x, y: ((z := (x @ y).float()), z.sum(0)),
    ],
    ids=["transposed", "views", "of_transposed", "batches", "used_by_others"],
)
def test_forms(device, with_matrices, function):
    check(device, function, 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: ((z := x @ y), z.float()),
        lambda x, y: ((z := x @ y).float(), z.sum(1)),
        lambda x, y: torch.tanh((x @ y).float()),
        lambda x, y: (x @ y).float().sum(0),
        lambda x, y: (x @ y)[:, :3].float(),
        lambda x, y: (x[:4] @ y).float(),
        lambda x, y: (x.float() @ y.float()).half(),
    ],
    ids=["returned", "used", "computed_with", "summed", "part", "few_rows", "other_dtypes"],
)
def test_what_stays(device, with_matrices, function):
    check(device, function, 0)


def test_settings_and_software(device, as_gpu, monkeypatch):
    monkeypatch.setattr(facts, "matrices_of", lambda index, dtype: {"usable": 0})
    check(device, lambda x, y: (x @ y).float(), 0)
    monkeypatch.setattr(facts, "matrices_of", lambda index, dtype: {"usable": 1})
    torch._dynamo.reset()
    with config.patch(float32_products=False):
        check(device, lambda x, y: (x @ y).float(), 0)
    torch._dynamo.reset()
    with torch._inductor.config.patch(emulate_precision_casts=True):
        check(device, lambda x, y: (x @ y).float(), 0)


@pytest.mark.parametrize("dtype", HALF)
def test_gradients_of_weights_under_autocast(device, with_matrices, dtype):
    """Two layers: both weights' gradients are float32, and no other product is."""
    x, w1, w2 = torch.randn(33, 24), torch.randn(40, 24) / 5, torch.randn(32, 40) / 6

    def loss(x, w1, w2):
        with torch.autocast("aule", dtype):
            return F.linear(F.gelu(F.linear(x, w1)), w2).float().square().mean()

    own = [x.to(device), *(w.to(device).requires_grad_() for w in (w1, w2))]
    actual, codes = run_fw_bw_and_get_code(lambda: torch.compile(loss, fullgraph=True)(*own))
    assert wide(codes) == 2
    exact = [w.double().requires_grad_() for w in (w1, w2)]
    expected = F.linear(F.gelu(F.linear(x.double(), exact[0])), exact[1]).square().mean()
    expected.backward()
    assert_close(actual.double(), expected.detach(), rtol=1e-2, atol=1e-2)
    for a, e in zip(own[1:], exact, strict=True):
        assert a.grad.dtype == torch.float32
        assert_close(a.grad.double(), e.grad, rtol=0.03, atol=0.03 * e.grad.abs().max().item())
