"""diagonal_matmul, fused_linear_rowsum, mixture of experts and experimental attention against float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

import torch_aule
from helpers import like_strided, needs_shader_compiler
from torch_aule import functional
from torch_aule.compat import experimental
from torch_aule.compat.testing import assert_verbose_allclose, infer_device, supports_bfloat16

pytestmark = pytest.mark.validated

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
DIAGONAL = [(1, 1), (2, 8), (4, 16), (3, 7), (8, 128), (32, 64), (1, 1024), (512, 1), (5, 3001), (0, 4), (4, 0)]
ROWSUM = [(2, 8, 4), (4, 16, 8), (1, 1, 1), (3, 7, 5), (8, 128, 64), (16, 512, 256), (1, 1023, 512), (32, 64, 1024),
          (1, 2048, 1), (1, 1, 2048), (1024, 1, 1), (0, 8, 3), (5, 0, 3), (5, 8, 0)]  # fmt: skip


def tolerance(dtype):
    return {torch.float64: 1e-12, torch.float32: 3e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]


def near(actual, expected, dtype, terms=1):
    scale = max(1.0, math.sqrt(terms))
    assert_verbose_allclose(actual, expected, rtol=tolerance(dtype), atol=tolerance(dtype) * scale)
    assert actual.dtype is dtype and actual.shape == expected.shape


def both(function, reference, dtype, *shapes, terms=1):
    """Outputs and gradients of contiguous tensors and of views."""
    host = [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]
    wide = [t.double().requires_grad_() for t in host]
    expected = reference(*wide)
    grad = torch.randn(expected.shape, dtype=torch.float64).to(dtype)
    wanted = torch.autograd.grad(expected, wide, grad.double(), allow_unused=True)
    for place in (lambda t: t.to("aule"), like_strided):
        mine = [place(t).requires_grad_() for t in host]
        actual = function(*mine)
        near(actual, expected.detach(), dtype, terms)
        for got, want, t in zip(torch.autograd.grad(actual, mine, place(grad)), wanted, host):
            near(got, torch.zeros(t.shape) if want is None else want, dtype, terms)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", DIAGONAL)
def test_diagonal_matmul(device, shape, dtype):
    n, m = shape
    both(functional.diagonal_matmul, lambda a, b: torch.diag(a) @ b, dtype, (n,), (n, m), terms=m)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", ROWSUM)
def test_fused_linear_rowsum(device, shape, bias, dtype):
    batch, inputs, outputs = shape
    shapes = [(batch, inputs), (outputs, inputs), *([(outputs,)] if bias else [])]
    terms = max(1, inputs * outputs * (4 if dtype is torch.float64 else 1), batch)
    both(functional.fused_linear_rowsum, lambda *t: F.linear(*t).sum(-1), dtype, *shapes, terms=terms)


def test_more_dimensions_and_linearity(device):
    layer = torch_aule.FusedLinearRowSum(24, 10, bias=False).to(device)
    x, y = torch.randn(2, 3, 24, device=device), torch.randn(2, 3, 24, device=device)
    assert_verbose_allclose(layer(2 * x - y), 2 * layer(x) - layer(y), rtol=1e-4, atol=1e-4)
    assert layer(x).shape == (2, 3) and layer.bias is None
    assert torch.equal(torch_aule.DiagonalMatMul()(x[0, 0], y[0].mT), functional.diagonal_matmul(x[0, 0], y[0].mT))


def test_many_rows(device):
    """More rows than workgroups in one dimension of a grid."""
    rows = 70_001
    a, b = torch.randn(rows), torch.randn(rows, 4)
    assert_verbose_allclose(functional.diagonal_matmul(a.to(device), b.to(device)), a[:, None] * b)
    w = torch.randn(3, 4)
    actual = functional.fused_linear_rowsum(b.to(device), w.to(device))
    assert_verbose_allclose(actual, F.linear(b, w).sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [7, 64, 1030, 2048])
def test_rows_that_share_a_workgroup(device, columns, dtype):
    x, w, bias = (torch.randn(*size, dtype=dtype) for size in ((4099, columns), (2, columns), (2,)))
    wanted = F.linear(x.double(), w.double(), bias.double()).sum(-1)
    actual = functional.fused_linear_rowsum(*(t.to(device) for t in (x, w, bias)))
    assert actual.dtype == dtype
    # Seven sums and products round by half an eps of the terms each, halves in float32 and once more at the end; the
    # worst of 200,000 rows is 1.3 eps in float32. In float64 the reference rounds as well.
    roundings = {torch.float64: 8, torch.float32: 4}.get(dtype, 1) * torch.finfo(dtype).eps
    scale = x.double().abs() @ w.double().abs().sum(0) + bias.double().abs().sum()
    assert bool(((actual.cpu().double() - wanted).abs() <= roundings * scale).all())


def test_memory_of_a_row_sum(device):
    """Nothing of the size of the layer's output."""
    x, w = torch.randn(1024, 128, device=device), torch.randn(1024, 128, device=device)
    functional.fused_linear_rowsum(x, w)
    torch.aule.synchronize()
    torch.aule.reset_peak_memory_stats()
    before = torch.aule.memory_allocated()
    functional.fused_linear_rowsum(x, w)
    torch.aule.synchronize()
    assert torch.aule.max_memory_allocated() - before < 1024 * 1024 * 4 / 8


def test_errors(device):
    a, b = torch.randn(3, device=device), torch.randn(4, 5, device=device)
    with pytest.raises(ValueError, match=r"a of shape \[n\]"):
        functional.diagonal_matmul(a, b)
    with pytest.raises(RuntimeError, match="one dtype"):
        functional.diagonal_matmul(a, b[:3].half())
    with pytest.raises(ValueError, match=r"weight of shape \[out, in\]"):
        functional.fused_linear_rowsum(a, b)
    with pytest.raises(ValueError, match="bias of shape"):
        functional.fused_linear_rowsum(b, b, a)
    with pytest.raises(ValueError, match="k between"):
        torch_aule.moe_topk_route(b, 6)
    with pytest.raises(ValueError, match="logits"):
        torch_aule.moe_topk_route(a, 1)


@pytest.mark.parametrize("place", ["cpu", "aule"])
def test_opcheck(place):
    a, b = (torch.randn(shape, device=place, requires_grad=True) for shape in ((3,), (3, 5)))
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if place == "cpu":
        checks.append("test_autograd_registration")  # which knows no other device
    torch.library.opcheck(torch.ops.aule.diagonal_matmul.default, (a, b), test_utils=checks)
    layer = (b, torch.randn_like(b), torch.randn_like(a))
    torch.library.opcheck(torch.ops.aule.fused_linear_rowsum.default, layer, test_utils=checks)


@pytest.mark.parametrize("tokens, experts, k", [(1, 1, 1), (7, 4, 2), (33, 5, 5), (0, 3, 1)])
def test_moe_topk_route(device, tokens, experts, k):
    logits = torch.randn(tokens, experts)
    route = torch_aule.moe_topk_route(logits.to(device), k)
    values, indices = logits.topk(k, dim=1)
    assert torch.equal(route.indices.cpu(), indices)
    assert_verbose_allclose(route.weights, values.softmax(1))
    counts = torch.bincount(indices.flatten(), minlength=experts)
    assert torch.equal(route.counts.cpu().long(), counts) and route.counts.dtype is torch.int32
    assert torch.equal(route.offsets.cpu().long(), counts.cumsum(0)) and route.offsets.dtype is torch.int32
    assert torch.equal(route.permutation.cpu(), torch.sort(indices.flatten(), stable=True).indices)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_mixture_of_experts(device, dtype):
    """Against a loop over experts."""
    layer = torch_aule.MixtureOfExperts(16, 24, 5, top_k=2, device=device, dtype=dtype)
    x = torch.randn(3, 7, 16, dtype=dtype)
    mine = x.to(device).requires_grad_()
    actual = layer(mine)
    router, gate, up, down = (p.detach().cpu().double() for p in (layer.router, layer.gate, layer.up, layer.down))
    wide = x.double().requires_grad_()
    tokens = wide.view(-1, 16)
    indices = torch_aule.moe_topk_route(F.linear(x.view(-1, 16), router.to(dtype)), 2).indices  # as rounded logits say
    logits = F.linear(tokens, router)
    weights = logits.gather(1, indices).softmax(1)
    expected = torch.zeros_like(tokens)
    for expert in range(5):
        made = (F.silu(tokens @ gate[expert]) * (tokens @ up[expert])) @ down[expert]
        expected = expected + made * (weights * (indices == expert)).sum(1, keepdim=True)
    tight = 1e-5 if dtype is torch.float32 else 5e-2
    assert_verbose_allclose(actual, expected.view(x.shape), rtol=tight, atol=tight)
    grad = torch.randn(x.shape, dtype=dtype)
    actual.backward(grad.to(device))
    expected.backward(grad.double().view(-1, 16))
    assert_verbose_allclose(mine.grad, wide.grad, rtol=4 * tight, atol=4 * tight)


def test_gravity_attention(device):
    q, k, v = (torch.randn(2, 3, n, 8) for n in (9, 14, 14))
    order = experimental.spatial_sort(k.to(device), v.to(device), 2)
    assert torch.equal(order.cpu(), k[..., 2].argsort(dim=-1, stable=True))
    cos, sin = functional.precompute_rope_frequencies(14, 8)
    whole = [(False, -1, None, False), (False, -1, 5, True), (True, -1, 14, True)]
    for causal, window, most, tables in [*whole, (True, 4, 9, False), (False, 6, 99, False)]:
        rotary = (cos.to(device), sin.to(device)) if tables else (None, None)
        actual = experimental.gravity_attention(
            *(t.to(device) for t in (q, k, v)), order, *rotary, causal=causal, max_attend=most, window_size=window
        )
        rq, rk = functional.apply_rope_separate(q.to(device), k.to(device), cos.to(device), sin.to(device))
        qq, kk = (rq.cpu().double(), rk.cpu().double()) if tables else (q.double(), k.double())
        taken = torch.zeros(2, 3, 14, dtype=torch.bool).scatter(2, order.cpu()[..., :most], True).unsqueeze(2)
        distance = torch.arange(9).view(-1, 1) - torch.arange(14)
        shown = taken & ((distance >= 0) if causal else torch.ones(9, 14, dtype=torch.bool))
        if window > 0:
            shown = shown & ((distance < window) if causal else (distance.abs() <= window // 2))
        scores = (qq @ kk.mT / math.sqrt(8)).masked_fill(~shown, -math.inf)
        weights = scores.softmax(-1).nan_to_num(0)
        assert_verbose_allclose(actual, weights @ v.double(), rtol=1e-4, atol=1e-5)


def test_errors_of_gravity_attention(device):
    q = torch.randn(1, 1, 4, 8, device=device)
    order = experimental.spatial_sort(q, q)
    with pytest.raises(ValueError, match="sort_dim"):
        experimental.spatial_sort(q, q, 8)
    with pytest.raises(ValueError, match="indices of shape"):
        experimental.gravity_attention(q, q, q, order[..., :2])
    with pytest.raises(ValueError, match="together"):
        experimental.gravity_attention(q, q, q, order, rot_cos=torch.ones(4, 4, device=device))
    with pytest.raises(ValueError, match="max_attend"):
        experimental.gravity_attention(q, q, q, order, max_attend=0)


def test_verbose_allclose():
    assert infer_device() == "aule" and supports_bfloat16()
    nan, inf = math.nan, math.inf
    assert_verbose_allclose(torch.tensor([nan, inf, 1.0]), torch.tensor([nan, inf, 1.0]))
    with pytest.raises(AssertionError, match=r"(?s)kernel: 2 of 3 elements.*at \(0,\).*and 1 more"):
        assert_verbose_allclose(torch.tensor([inf, 1.0, 2.0]), torch.tensor([-inf, 1.0, 3.0]), max_print=1,
                                extra_info="kernel: ")  # fmt: skip
    with pytest.raises(AssertionError, match="shapes"):
        assert_verbose_allclose(torch.ones(2), torch.ones(2, 1))


def diag_product(a, b):
    return torch.diag(a) @ b


def diag_method(a, b):
    return torch.matmul(a.diag(), b.relu())


def row_sum(x, w, bias):
    return F.linear(x, w, bias).sum(-1)


def row_sum_of_all(x, w, bias):
    return torch.sum(F.linear(x.sin(), w), dim=1) * bias.sum()


def other_sum(x, w, bias):
    return F.linear(x, w, bias).sum(0)


@pytest.mark.parametrize(
    "program, count", [(diag_product, 1), (diag_method, 1), (row_sum, 1), (row_sum_of_all, 1), (other_sum, 0)]
)
def test_compiled(device, fresh_compiler, program, count):
    """torch.compile finds them, with their gradients."""
    needs_shader_compiler()
    sizes = [(6,), (6, 10)] if "diag" in program.__name__ else [(4, 12), (7, 12), (7,)]
    eager = [torch.randn(size, device=device, requires_grad=True) for size in sizes]
    compiled = [t.detach().clone().requires_grad_() for t in eager]
    expected = program(*eager)
    expected.square().sum().backward()
    counters.clear()
    actual = torch.compile(program, fullgraph=True)(*compiled)
    assert counters["inductor"]["aule_reference_kernels"] == count
    actual.square().sum().backward()
    assert_verbose_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    for got, want in zip(compiled, eager):
        assert_verbose_allclose(got.grad, want.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["Mixtral", "Qwen3Moe"])
def test_experts_of_transformers_read_nothing_on_the_host(device, name):
    """Their default implementation is grouped products, whose offsets stay on the device."""
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(
        vocab_size=64, hidden_size=32, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2, head_dim=8,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    tokens, mask = torch.randint(64, (2, 16)), torch.zeros(2, 1, 16, 16)  # of four dimensions: it is not looked at
    with torch.no_grad():
        expected = model(tokens, attention_mask=mask).logits
        model.to(device)
        tokens, mask = tokens.to(device), mask.to(device)
        torch.aule.synchronize()
        torch.aule.set_sync_debug_mode("error")
        try:
            logits = model(tokens, attention_mask=mask, use_cache=False).logits
        finally:
            torch.aule.set_sync_debug_mode("default")
    assert_verbose_allclose(logits.cpu(), expected, rtol=1e-3, atol=1e-3)
