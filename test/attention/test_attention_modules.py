"""How PyTorch reaches the attention kernels: contexts, compile, autocast, opcheck, nn.MultiheadAttention."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.current_lavapipe

FUSED = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default


class Record(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(func)
        return func(*args, **(kwargs or {}))


def operators(call):
    with Record() as record:
        call()
    return record.seen


def qkv(requires_grad=False, shape=(1, 2, 6, 16)):
    return [torch.randn(shape).to("aule").requires_grad_(requires_grad) for _ in range(3)]


@pytest.mark.parametrize(
    "backends, fused",
    [
        ([SDPBackend.FLASH_ATTENTION], True),
        ([SDPBackend.EFFICIENT_ATTENTION], True),
        ([SDPBackend.OVERRIDEABLE], True),
        ([SDPBackend.MATH], False),
        ([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], True),
    ],
)
def test_contexts(backends, fused):
    q, k, v = qkv()

    def call():
        with sdpa_kernel(backends):
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    assert (FUSED in operators(call)) == fused


def test_context_order_and_no_backend():
    q, k, v = qkv()

    def math_first():
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            F.scaled_dot_product_attention(q, k, v)

    assert FUSED not in operators(math_first)
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]), pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0])


def test_choice_is_4_and_0():
    q, k, v = qkv()
    assert torch._fused_sdp_choice(q, k, v) == 4
    assert torch._fused_sdp_choice(q, k[:, :1], v[:, :1]) == 0
    assert torch._fused_sdp_choice(q, k[:, :1], v[:, :1], enable_gqa=True) == 4
    wide = torch.zeros(1, 1, 2, 600).to("aule")
    assert torch._fused_sdp_choice(wide, wide, wide) == 0


@pytest.mark.sampled(16)
@pytest.mark.parametrize("batch", [(2,), ()])
@pytest.mark.parametrize("mask", [None, (5, 5), (2, 1, 5), (2, 2, 5, 5), (1, 2, 5, 5)])
@pytest.mark.parametrize("in_dims", [(0, 0, 0, 0), (1, None, None, None), (None, 0, 1, 0), (None, None, None, 1)])
def test_vmap(in_dims, mask, batch):
    """Per-sample attention and its gradients, through the fused kernels."""
    if mask is not None and len(mask) > 3 and not batch or mask is None and in_dims[:3] == (None,) * 3:
        return  # such a mask needs a batch; nothing is mapped
    shapes = [(*batch, 2, 5, 8)] * 3 + [mask or (1,)]
    if mask is None:
        in_dims = (*in_dims[:3], None)
    args = [torch.randn(s if d is None else (*s[:d], 3, *s[d:])) for s, d in zip(shapes, in_dims)]

    def attend(q, k, v, m):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else m)

    def gradients(*args):
        argnums = tuple(range(3 if mask is None else 4))
        return torch.func.grad(lambda *a: attend(*a).square().sum(), argnums)(*args)

    def on_device(function):
        return torch.vmap(function, in_dims)(*[a.to("aule") for a in args])

    samples = [[a if d is None else a.select(d, i) for a, d in zip(args, in_dims)] for i in range(3)]
    expected = torch.stack([attend(*sample) for sample in samples])
    torch.testing.assert_close(on_device(attend).cpu(), expected, rtol=1e-3, atol=1e-4)
    for actual, *each in zip(on_device(gradients), *[gradients(*sample) for sample in samples]):
        torch.testing.assert_close(actual.cpu(), torch.stack(each), rtol=1e-3, atol=1e-4)
    assert FUSED in operators(lambda: on_device(attend))


def test_vmap_with_dropout():
    q, k = qkv(shape=(2, 2, 9, 16))[:2]
    eye = torch.eye(9).expand(2, 2, 9, 9).to("aule")  # the output is then the dropped weights
    grads = torch.randn(3, 2, 2, 9, 9).to("aule")

    def attend(v):
        torch.aule.manual_seed(4)
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    # The forward is outside of vmap: every mapped backward replays its one mask.
    leaf = eye.clone().requires_grad_()
    out = attend(leaf)
    (mapped,) = torch.autograd.grad(out, leaf, grads, is_grads_batched=True)
    torch.testing.assert_close(mapped.cpu(), out.detach().cpu().mT @ grads.cpu(), rtol=1e-4, atol=1e-5)

    # The forward is inside: each call has a mask of its own.
    values = eye.expand(3, *eye.shape)
    pulled, outs = torch.vmap(lambda v, g: torch.func.vjp(attend, v)[1](g) + (attend(v),), randomness="different")(
        values, grads
    )
    torch.testing.assert_close(pulled.cpu(), outs.cpu().mT @ grads.cpu(), rtol=1e-4, atol=1e-5)
    assert not torch.equal(outs[0].cpu(), outs[1].cpu())
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(attend)(values)


def test_forward_mode():
    q, k, v = qkv()
    with sdpa_kernel(SDPBackend.MATH):
        tangent = torch.func.jvp(lambda q: F.scaled_dot_product_attention(q, k, v), (q,), (torch.ones_like(q),))[1]
        cpu = [t.cpu() for t in (q, k, v)]
        expected = torch.func.jvp(
            lambda q: F.scaled_dot_product_attention(q, *cpu[1:]), (cpu[0],), (torch.ones_like(cpu[0]),)
        )[1]
    torch.testing.assert_close(tangent.cpu(), expected, rtol=1e-3, atol=1e-5)


def test_opcheck():
    q, k, v = qkv(requires_grad=True)
    fwd = torch.ops.aule.flash_attn_fwd.default
    # torch's own test_autograd_registration knows CPU, CUDA and XPU only and refuses inputs that require gradients
    # elsewhere; the others cover them.
    with_gradients = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(fwd, (q, k, v), {"is_causal": True}, test_utils=with_gradients)
    bias = torch.randn(1, 2, 6, 6).to("aule").requires_grad_()
    torch.library.opcheck(fwd, (q, k, v, bias), test_utils=with_gradients)
    torch.library.opcheck(fwd, tuple(t.detach() for t in (q, k, v)), {"scale": 0.5, "softcap": 2.0})
    assert torch._C._dispatch_has_kernel_for_dispatch_key("aule::flash_attn_fwd", "Autograd")
    with torch.no_grad():
        out, lse, seed, offset = torch.ops.aule.flash_attn_fwd(q, k, v)
        args = (torch.randn_like(out), q.detach(), k.detach(), v.detach(), out, lse, seed, offset)
        torch.library.opcheck(torch.ops.aule.flash_attn_bwd.default, args)


@pytest.mark.parametrize("own", [False, True])
def test_aot_eager(own):
    def attend(q, k, v):
        if own:
            return torch.ops.aule.flash_attn_fwd(q, k, v, None, 0.0, True)[0] * 2
        return F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    eager = qkv(requires_grad=True)
    traced = [t.detach().requires_grad_() for t in eager]
    attend(*eager).sum().backward()
    compiled(*traced).sum().backward()
    for a, b in zip(eager, traced):
        torch.testing.assert_close(a.grad.cpu(), b.grad.cpu())


def test_autocast():
    q, k, v = qkv(requires_grad=True)
    with torch.autocast("aule", dtype=torch.bfloat16):
        own = torch.ops.aule.flash_attn_fwd(q, k, v)[0]
        sdpa = F.scaled_dot_product_attention(q, k, v)
    assert own.dtype == sdpa.dtype == torch.bfloat16
    own.float().sum().backward()
    assert q.grad.dtype == torch.float32


def test_gradient_of_logsumexp():
    q, k, v = qkv(requires_grad=True)
    _, lse, _, _ = torch.ops.aule.flash_attn_fwd(q, k, v)
    lse.square().sum().backward()
    cpu = [t.detach().cpu().requires_grad_() for t in (q, k, v)]
    torch.logsumexp(cpu[0] @ cpu[1].transpose(-1, -2) / math.sqrt(16), -1).square().sum().backward()
    for a, b in zip((q, k), cpu):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("mask", [None, "padding", "both"])
def test_multihead_attention(need_weights, mask):
    cpu = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    ours = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    ours.load_state_dict(cpu.state_dict())
    ours.to("aule")
    x = torch.randn(2, 5, 16)
    masks = {}
    if mask is not None:
        masks["key_padding_mask"] = torch.tensor([[False] * 5, [False, False, False, True, True]])
    if mask == "both":
        masks["attn_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    moved = x.to("aule")
    with torch.no_grad():
        torch.backends.mha.set_fastpath_enabled(False)  # the CPU's own fast path would be compared with itself
        try:
            expected, expected_weights = cpu(x, x, x, need_weights=need_weights, **masks)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        on_device = {name: m.to("aule") for name, m in masks.items()}
        actual, weights = ours(moved, moved, moved, need_weights=need_weights, **on_device)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)
    if need_weights:
        torch.testing.assert_close(weights.cpu(), expected_weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first, activation", [(False, "relu"), (True, "gelu")])
def test_transformer_encoder_in_eval(norm_first, activation):
    def build():
        layer = torch.nn.TransformerEncoderLayer(
            16, 2, 32, batch_first=True, norm_first=norm_first, activation=activation
        )
        return torch.nn.TransformerEncoder(layer, 2).eval()

    cpu, ours = build(), build()
    ours.load_state_dict(cpu.state_dict())
    ours.to("aule")
    x = torch.randn(2, 6, 16)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    with torch.no_grad():
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            expected = cpu(x), cpu(x, src_key_padding_mask=padding)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        moved = x.to("aule")
        plain, padded = ours(moved).cpu(), ours(moved, src_key_padding_mask=padding.to("aule")).cpu()
    torch.testing.assert_close(plain, expected[0], rtol=1e-4, atol=1e-4)
    visible = ~padding
    torch.testing.assert_close(padded[visible], expected[1][visible], rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(torch.aule.Graph is None, reason="torch.accelerator.Graph exists from torch 2.12 on")
def test_dropout_in_a_captured_graph():
    """Each replay draws anew, and the backward recorded beside the forward replays the mask of that draw."""
    n = 16
    q, k = (torch.randn(1, 2, 20, n).to("aule") for _ in range(2))
    k, grad = k[:, :, :n], torch.randn(1, 2, 20, n).to("aule")
    eye = torch.eye(n).expand(1, 2, n, n).contiguous().to("aule")  # the output is then the dropped weights
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        out, lse, seed, offset = torch.ops.aule.flash_attn_fwd(q, k, eye, None, 0.5)
        dv = torch.ops.aule.flash_attn_bwd(grad, q, k, eye, out, lse, seed, offset, None, 0.5)[2]
    outs = []
    for _ in range(2):
        graph.replay()
        torch.aule.synchronize()
        outs.append(out.cpu())
        torch.testing.assert_close(dv.cpu(), outs[-1].transpose(-1, -2) @ grad.cpu(), rtol=1e-4, atol=1e-5)
    assert not torch.equal(*outs)
