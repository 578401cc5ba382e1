"""Operators of Liger (liger-kernel) for `triton_packages`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from triton_packages import Case

IGNORED = -100


def _r(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(shape) * scale).requires_grad_()


def _fixed(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def _labels(n: int, classes: int) -> torch.Tensor:
    labels = torch.randint(0, classes, (n,))
    labels[::4] = IGNORED
    return labels


def _rms(x, w, eps=1e-6, offset=0.0):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * (w + offset if w is not None else 1)


def _rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def _rope(q, k, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    return q * cos + _rotated(q) * sin, k * cos + _rotated(k) * sin


def _angles(batch: int, length: int, size: int) -> list[torch.Tensor]:
    half = torch.randn(batch, length, size // 2)
    both = torch.cat((half, half), -1)
    return [both.cos(), both.sin()]


def _interleaved_rope(q, k, cos, sin):
    def turned(x):  # [batch, length, heads, size], neighbours are one complex number
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * torch.complex(cos, sin)[:, None]).flatten(-2)

    return turned(q), turned(k)


def _mrope(q, k, cos, sin, sections):
    def mixed(t):
        parts = t.split(sections * 2, -1)
        return torch.cat([part[i % 3] for i, part in enumerate(parts)], -1)[:, None]

    cos, sin = mixed(cos), mixed(sin)
    return q * cos + _rotated(q) * sin, k * cos + _rotated(k) * sin


def _jsd(x, y, beta, labels=None):
    """Of logarithms of the student and the teacher."""
    p, q = x.exp(), y.exp()
    if beta == 0:
        terms = q * (y - x)
    elif beta == 1:
        terms = p * (x - y)
    else:
        m = ((1 - beta) * p + beta * q).log()
        terms = beta * q * (y - m) + (1 - beta) * p * (x - m)
    if labels is None:
        return terms.sum() / len(x)
    kept = labels != IGNORED
    return terms[kept].sum() / kept.sum()


def _tvd(p, q):
    return (p - q).abs().sum() / 2 / len(p)


def _sparsemax(x):
    z = x.sort(-1, descending=True).values
    sums = z.cumsum(-1) - 1
    k = torch.arange(1, x.shape[-1] + 1).to(x)
    count = (k * z > sums).sum(-1, keepdim=True)
    return (x - sums.gather(-1, count - 1) / count).clamp_min(0)


def _poly_norm(x, w, b, eps=1e-6):
    def norm(u):
        return u * (u.square().mean(-1, keepdim=True) + eps).rsqrt()

    return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b


def _softcapped(x, cap):
    return cap * torch.tanh(x / cap)


def _neighbours(q, k, v, size):
    length = q.shape[-2]
    at = torch.arange(length)
    near = (at[:, None] - at).abs() <= size // 2
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~near, -torch.inf)
    return scores.softmax(-1) @ v


def _multi_token(x, w, b):
    n = x.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    y = F.conv2d(x.masked_fill(later, -1e9).softmax(-1), w, b, padding=1)
    return y.masked_fill(later, 0)


def _attn_res(v, query, norm, eps=1e-6):
    """Softmax over the stacked states of what their norms score."""
    scores = (_rms(v, norm, eps) * query).sum(-1)
    return (scores.softmax(0)[..., None] * v).sum(0)


def _moe(x, gate_up, down, index, weights):
    out = torch.zeros_like(x)
    for e in range(len(gate_up)):
        token, place = (index == e).nonzero(as_tuple=True)
        gate, up = (x[token] @ gate_up[e].mT).chunk(2, -1)
        out = out.index_add(0, token, (F.silu(gate) * up) @ down[e].mT * weights[token, place, None])
    return out


def _routing(tokens: int, experts: int, k: int) -> list[torch.Tensor]:
    scores = torch.randn(tokens, experts).softmax(-1)
    weights, index = scores.topk(k, -1)
    return [index.int(), weights.requires_grad_()]


def _losses(ops, fn) -> list[Case]:
    def ce(x, t, **kwargs):
        return fn.liger_cross_entropy(x * 1, t, **kwargs)

    def plain(x, t, w=None, **kwargs):
        return F.cross_entropy(x, t, w, ignore_index=IGNORED, **kwargs)

    def z_loss(x, t):
        kept = t != IGNORED
        z = 1e-2 * x.logsumexp(-1)[kept].square().sum() / kept.sum()
        return plain(x, t) + z, z

    logits = lambda: [_r(13, 129), _labels(13, 129)]  # noqa: E731
    linear = lambda: [_r(11, 24), _r(77, 24, scale=0.3), _labels(11, 77), _r(77)]  # noqa: E731
    two = lambda: [F.log_softmax(torch.randn(9, 101), -1).requires_grad_(),  # noqa: E731
                   F.log_softmax(torch.randn(9, 101), -1), _labels(9, 101)]  # fmt: skip
    odds = lambda: [F.softmax(torch.randn(9, 101), -1).requires_grad_(), F.softmax(torch.randn(9, 101), -1)]  # noqa: E731

    def both(x, w, y, v):
        return F.log_softmax(x @ w.mT, -1), F.log_softmax(y @ v.mT, -1)

    found = [
        Case("liger cross_entropy", ce, plain, logits),
        Case("liger cross_entropy(large vocabulary)", ce, plain, lambda: [_r(3, 33001), _labels(3, 33001)]),
        Case("liger cross_entropy(sum, smoothing)", lambda x, t: ce(x, t, reduction="sum", label_smoothing=0.1),
             lambda x, t: plain(x, t, reduction="sum", label_smoothing=0.1), logits),
        Case("liger cross_entropy(none)", lambda x, t: ce(x, t, reduction="none"),
             lambda x, t: plain(x, t, reduction="none"), logits),
        Case("liger cross_entropy(weights)", lambda x, t, w: ce(x, t, weight=w), plain,
             lambda: [*logits(), torch.rand(129) + 0.5]),
        Case("liger cross_entropy(softcap)", lambda x, t: ce(x, t, softcap=3.0),
             lambda x, t: plain(_softcapped(x, 3.0), t), logits),
        Case("liger cross_entropy(z loss)",
             lambda x, t: (lambda o: (o.loss, o.z_loss.detach()))(ce(x, t, lse_square_scale=1e-2, return_z_loss=True)),
             lambda x, t: (lambda o: (o[0], o[1].detach()))(z_loss(x, t)), logits),
        Case("liger cross_entropy(accuracy, predictions)",
             lambda x, t: (lambda o: (o.loss, o.predicted_tokens))(
                 ce(x, t, return_token_accuracy=True, return_predicted_tokens=True)),
             lambda x, t: (plain(x, t), torch.where(t == IGNORED, -1, x.argmax(-1))), logits),
        Case("liger fused_linear_cross_entropy", lambda x, w, t, b: fn.liger_fused_linear_cross_entropy(x, w, t, b),
             lambda x, w, t, b: plain(x @ w.mT + b, t), linear),
        Case("liger fused_linear_cross_entropy(softcap, smoothing)",
             lambda x, w, t, b: fn.liger_fused_linear_cross_entropy(x, w, t, b, softcap=3.0, label_smoothing=0.1),
             lambda x, w, t, b: plain(_softcapped(x @ w.mT + b, 3.0), t, label_smoothing=0.1), linear),
        Case("liger fused_linear_jsd",
             lambda x, w, y, v, t: fn.liger_fused_linear_jsd(x, w, y, v, shift_labels=t, jsd_beta=0.3),
             lambda x, w, y, v, t: _jsd(*both(x, w, y, v), 0.3, t),
             lambda: [_r(11, 24), _r(77, 24), _fixed(11, 24), _fixed(77, 24), _labels(11, 77)]),
        Case("liger fused_linear_kl_div", lambda x, w, p: fn.liger_fused_linear_kl_div(x, w, p),
             lambda x, w, p: F.kl_div(F.log_softmax(x @ w.mT, -1), p, reduction="batchmean"),
             lambda: [_r(11, 24), _r(77, 24), torch.randn(11, 77).softmax(-1)]),
        *(Case(f"liger jsd(beta {beta})", lambda x, y, t, beta=beta: fn.liger_jsd(x, y, t, beta),
               lambda x, y, t, beta=beta: _jsd(x, y, beta, t), two) for beta in (0.0, 0.5, 1.0)),
        *(Case(f"liger kl_div({reduction})", lambda x, y, r=reduction: fn.liger_kl_div(x, y.exp(), reduction=r),
               lambda x, y, r=reduction: F.kl_div(x, y.exp(), reduction=r), lambda: two()[:2])
          for reduction in ("none", "sum", "mean", "batchmean")),
        Case("liger kl_div(log target)", lambda x, y: fn.liger_kl_div(x, y, reduction="batchmean", log_target=True),
             lambda x, y: F.kl_div(x, y, reduction="batchmean", log_target=True), lambda: two()[:2]),
        Case("liger tvd", lambda p, q: fn.liger_tvd(p, q, reduction="batchmean"), _tvd, odds),
        Case("liger fused_ce_tvd", lambda s, t, y: ops.LigerFusedCETVDFunction.apply(s, t, y),
             lambda s, t, y: (plain(s, y, reduction="none"),
                              (s.softmax(-1) - t.softmax(-1)).abs().sum(-1) / 2 * (y != IGNORED)),
             lambda: [_r(9, 101), _fixed(9, 101), _labels(9, 101)]),
    ]  # fmt: skip
    return found


def _norms(ops, fn) -> list[Case]:
    found = [
        *(Case(f"liger rms_norm({mode})", lambda x, w, m=mode, o=offset: fn.liger_rms_norm(x, w, 1e-6, o, m),
               lambda x, w, o=offset: _rms(x, w, 1e-6, o), lambda: [_r(3, 5, 77), _r(77)])
          for mode, offset in (("llama", 0.0), ("gemma", 1.0), ("none", 0.0))),
        Case("liger rms_norm(no weight)", lambda x: fn.liger_rms_norm(x, None, 1e-6), lambda x: _rms(x, None),
             lambda: [_r(3, 5, 77)]),
        Case("liger rms_norm(many rows)", lambda x, w: fn.liger_rms_norm(x, w, 1e-6), _rms,
             lambda: [_r(4500, 64), _r(64)]),
        Case("liger fused_add_rms_norm", lambda x, r, w: fn.liger_fused_add_rms_norm(x, r, w, 1e-6),
             lambda x, r, w: (_rms(x + r, w), x + r), lambda: [_r(3, 5, 77), _r(3, 5, 77), _r(77)]),
        Case("liger modulated_rms_norm", fn.liger_modulated_rms_norm,
             lambda x, w, s, h: _rms(x, w) * (1 + s[:, None]) + h[:, None],
             lambda: [_r(3, 5, 77), _r(77), _r(3, 77), _r(3, 77)]),
        Case("liger layer_norm", lambda x, w, b: fn.liger_layer_norm(x, w, b, 1e-6),
             lambda x, w, b: F.layer_norm(x, (77,), w, b, 1e-6), lambda: [_r(3, 5, 77), _r(77), _r(77)]),
        Case("liger group_norm", lambda x, w, b: fn.liger_group_norm(x, w, b, 12, 4, 1e-6),
             lambda x, w, b: F.group_norm(x, 4, w, b, 1e-6), lambda: [_r(3, 12, 35), _r(12), _r(12)]),
        Case("liger poly_norm", fn.liger_poly_norm, _poly_norm, lambda: [_r(3, 5, 77), _r(3), _r()]),
        Case("liger dyt", fn.liger_dyt, lambda x, a, g, b: torch.tanh(a * x) * g + b,
             lambda: [_r(3, 5, 77), _r(1), _r(77), _r(77)]),
        Case("liger softmax", fn.liger_softmax, lambda x: x.softmax(-1), lambda: [_r(3, 5, 77)]),
        Case("liger softmax(wide)", fn.liger_softmax, lambda x: x.softmax(-1), lambda: [_r(2, 33001)]),
        Case("liger sparsemax", fn.liger_sparsemax, _sparsemax, lambda: [_r(15, 77)]),
        Case("liger attn_res", lambda v, q, n: ops.LigerAttnResFunction.apply(v, q, n, 1e-6), _attn_res,
             lambda: [_r(5, 2, 7, 48), _r(48), _r(48)]),
    ]  # fmt: skip
    return found


def _others(ops, fn) -> list[Case]:
    gelu = lambda a, b: F.gelu(a, approximate="tanh") * b  # noqa: E731
    pair = lambda: [_r(3, 5, 77), _r(3, 5, 77)]  # noqa: E731
    found = [
        Case("liger swiglu", fn.liger_swiglu, lambda a, b: F.silu(a) * b, pair),
        Case("liger geglu", fn.liger_geglu, gelu, pair),
        Case("liger relu_squared", fn.liger_relu_squared, lambda x: F.relu(x).square(), lambda: [_r(3, 5, 77)]),
        Case("liger rope", lambda q, k, c, s: fn.liger_rope(q * 1, k * 1, c, s), _rope,
             lambda: [_r(2, 6, 7, 16), _r(2, 2, 7, 16), *_angles(1, 7, 16)]),
        Case("liger rope(24 numbers a head)", lambda q, k, c, s: fn.liger_rope(q * 1, k * 1, c, s), _rope,
             lambda: [_r(2, 5, 9, 24), _r(2, 5, 9, 24), *_angles(2, 9, 24)]),
        Case("liger llama4_rope",
             lambda q, k, c, s: ops.LigerLlama4RopeFunction.apply(
                 q * 1, k * 1, torch.complex(c.cpu(), s.cpu()).to("aule")),
             _interleaved_rope, lambda: [_r(2, 7, 4, 16), _r(2, 7, 2, 16), *[t[0, :, :8] for t in _angles(1, 7, 16)]]),
        Case("liger qwen2vl_mrope", lambda q, k, c, s: fn.liger_qwen2vl_mrope(q * 1, k * 1, c, s, [2, 3, 3]),
             lambda q, k, c, s: _mrope(q, k, c, s, [2, 3, 3]),
             lambda: [_r(2, 4, 7, 16), _r(2, 2, 7, 16),
                      *(t.view(3, 2, 7, 16) for t in _angles(6, 7, 16))]),
        Case("liger multi_token_attention", lambda x, w, b: fn.liger_multi_token_attention(x, w, b, padding=1),
             _multi_token, lambda: [_r(2, 3, 11, 11), _r(3, 3, 3, 3), _r(3)]),
        Case("liger fused_neighborhood_attention",
             lambda q, k, v: fn.liger_fused_neighborhood_attention(q, k, v, kernel_size=5),
             lambda q, k, v: _neighbours(q, k, v, 5), lambda: [_r(1, 2, 19, 16), _r(1, 2, 19, 16), _r(1, 2, 19, 16)]),
        Case("liger fused_moe", lambda *t: ops.LigerFusedMoEFunction.apply(*t), _moe,
             lambda: [_r(19, 32), _r(4, 48, 32), _r(4, 32, 24), *_routing(19, 4, 2)]),
    ]  # fmt: skip
    return found


def cases() -> list[Case]:
    """Every operator."""
    import liger_kernel.ops as ops
    from liger_kernel.transformers import functional as fn

    return [*_losses(ops, fn), *_norms(ops, fn), *_others(ops, fn)]
