"""Operators of Flash Linear Attention (flash-linear-attention, fla-core) for `triton_packages`."""

from __future__ import annotations

import importlib

import torch
import torch.nn.functional as F
from triton_packages import Case

B, T, H, K, V = 2, 70, 2, 12, 20  # two chunks of 64, the second one short; no power of two


def recurrence(
    q, k, v, g=None, gk=None, gv=None, beta=None, p=None, a=None, b=None, bonus=None, scale=None, state=None,
    early=False,
):  # fmt: skip
    """A state that is a matrix, step by step, which all of these operators compute in chunks.

    [batch, time, heads, size] each; gates are logarithms: `g` of the state, `gk` of its rows, `gv` of its columns.
    With `beta` a step takes out what the state has at `p` (default `k`) before it writes; `a` and `b` add the state
    at `a` along `b`. `early`: what is taken out is what was there before the gates.
    """
    scale = k.shape[-1] ** -0.5 if scale is None else scale
    s = q.new_zeros(q.shape[0], q.shape[2], k.shape[-1], v.shape[-1]) if state is None else state
    outs = []
    for t in range(q.shape[1]):
        before = s
        for gate, shape in ((g, (..., None, None)), (gk, (..., None)), (gv, (..., None, slice(None)))):
            if gate is not None:
                s = s * gate[:, t].exp()[shape]
        write = v[:, t]
        if beta is not None:
            at = (k if p is None else p)[:, t]
            write = (write - ((before if early else s) * at[..., None]).sum(-2)) * beta[:, t, :, None]
        if a is not None:
            s = s + b[:, t, :, :, None] * (before * a[:, t, :, :, None]).sum(-2, keepdim=True)
        new = k[:, t, :, :, None] * write[..., None, :]
        seen = before + bonus[..., None] * new if bonus is not None else s + new
        s = s + new
        outs.append((q[:, t, :, :, None] * scale * seen).sum(-2))
    return torch.stack(outs, 1), s


def _r(*shape, scale=1.0):
    return (torch.randn(shape) * scale).requires_grad_()


def _gate(*shape):
    return F.logsigmoid(torch.randn(shape) + 2).requires_grad_()


def _unit(*shape):
    return F.normalize(torch.randn(shape), dim=-1).requires_grad_()


def _rate(*shape):
    return torch.rand(shape).requires_grad_()


def _qkv(k=K, v=V, heads=H, keys=_r):
    return [_r(B, T, heads, k), keys(B, T, heads, k), _r(B, T, heads, v)]


def _first(found):
    return found[0] if isinstance(found, tuple) else found


def _normalized(q, k, v):
    o = recurrence(q, k, v)[0]
    z = (q * k.shape[-1] ** -0.5 * k.cumsum(1)).sum(-1, keepdim=True)
    return o / (z + 1e-10)


def _slots(q, k, v, s, g):
    """Gated slots: what is read from keys weighs what is read from values."""
    weights = recurrence(q, k, s, gv=g)[0].softmax(-1)
    return recurrence(weights, s, v, gk=g, scale=1.0)[0]


def _scan(x, g):
    outs, h = [], torch.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        h = g[:, t].exp() * h + x[:, t]
        outs.append(h)
    return torch.stack(outs, 1)


def _attention(q, k, v, g=None, window=None):
    groups = q.shape[2] // k.shape[2]
    q, k, v = q.transpose(1, 2), *(t.transpose(1, 2).repeat_interleave(groups, 1) for t in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if g is not None:
        sums = g.cumsum(1).transpose(1, 2)
        scores = scores + sums[..., :, None] - sums[..., None, :]
    n = torch.arange(q.shape[-2])
    far = n[:, None] - n
    hidden = (far < 0) if window is None else (far < 0) | (far >= window)
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2)


def _power(q, k, v, polynomial, normalize=True, eps=1e-6):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    scores = polynomial(q @ k.mT * q.shape[-1] ** -0.5).tril()
    o = scores @ v
    return (o / (scores.sum(-1, keepdim=True) + eps) if normalize else o).transpose(1, 2)


def _decays(heads):
    return (1 - 2.0 ** (-5.0 - torch.arange(heads, dtype=torch.float64))).log()


def _steady(q, k, v, decays):
    return recurrence(q, k, v, g=decays.expand(*q.shape[:3]))[0]


def _pieces(call, starts):
    """A reference for several sequences in one row."""

    def joined(*tensors):
        parts = [[t[:, a:b] for t in tensors] for a, b in zip(starts, starts[1:])]
        return torch.cat([_first(call(*part)) for part in parts], 1)

    return joined


def _recurrent(ops) -> list[Case]:
    """Operators with a state, in chunks and step by step."""
    cases = []

    def add(names, reference, inputs, tolerance=5e-4, **kwargs):
        for name in names.split():
            function = getattr(ops if hasattr(ops, name) else importlib.import_module("fla.ops.hgrn"), name)
            cases.append(Case(f"fla {name}", lambda *t, f=function: _first(f(*t, **kwargs)),
                              lambda *t: _first(reference(*t)), inputs, tolerance))  # fmt: skip

    heads = (B, T, H)
    add("chunk_simple_gla fused_chunk_simple_gla fused_recurrent_simple_gla parallel_simple_gla",
        lambda q, k, v, g: recurrence(q, k, v, g=g), lambda: [*_qkv(), _gate(*heads)])  # fmt: skip
    add("chunk_gla fused_recurrent_gla", lambda q, k, v, g: recurrence(q, k, v, gk=g),
        lambda: [*_qkv(), _gate(*heads, K)])  # fmt: skip
    add("fused_recurrent_delta_rule", lambda q, k, v, b: recurrence(q, k, v, beta=b),
        lambda: [*_qkv(keys=_unit), _rate(*heads)])  # fmt: skip
    add("chunk_gated_delta_rule", lambda q, k, v, g, b: recurrence(q, k, v, g=g, beta=b),
        lambda: [*_qkv(keys=_unit), _gate(*heads), _rate(*heads)])  # fmt: skip
    add("fused_recurrent_kda", lambda q, k, v, g, b: recurrence(q, k, v, gk=g, beta=b),
        lambda: [t.detach() for t in (*_qkv(keys=_unit), _gate(*heads, K), _rate(*heads))])  # fmt: skip
    add("chunk_kda", lambda q, k, v, g, b: recurrence(q, k, v, gk=g, beta=b),
        lambda: [*_qkv(keys=_unit), _gate(*heads, K), _rate(*heads)])  # fmt: skip
    add("chunk_comba", lambda q, k, v, p, g, b: recurrence(q, k, v, g=g, beta=b, p=p, early=True),
        lambda: [*_qkv(keys=_unit), _unit(*heads, K), _gate(*heads), _rate(*heads)])  # fmt: skip
    add("fused_recurrent_comba", lambda q, k, p, v, g, b: recurrence(q, k, v, g=g, beta=b, p=p, early=True),
        lambda: [t.detach() for t in (_r(*heads, K), _unit(*heads, K), _unit(*heads, K), _r(*heads, V), _gate(*heads),
                                      _rate(*heads))])  # fmt: skip
    add("chunk_retention fused_chunk_retention fused_recurrent_retention parallel_retention",
        lambda q, k, v: _steady(q, k, v, _decays(H)), _qkv)  # fmt: skip
    add("chunk_lightning_attn fused_recurrent_lightning_attn",
        lambda q, k, v: _steady(q, k, v, -(8 / H * (1 - 1 / 4)) * torch.arange(H).double()), _qkv,
        layer_idx=1, num_layers=4)  # fmt: skip
    add("chunk_linear_attn fused_chunk_linear_attn fused_recurrent_linear_attn", recurrence, _qkv, normalize=False)
    add("chunk_gsa fused_recurrent_gsa", _slots, lambda: [*_qkv(), _r(*heads, 16), _gate(*heads, 16)])
    add("chunk_rwkv6 fused_recurrent_rwkv6",
        lambda r, k, v, w, u: recurrence(r, k, v, gk=w, bonus=u),
        lambda: [*_qkv(), _gate(*heads, K), _r(H, K)])  # fmt: skip
    low = lambda: [_r(*heads, 32), _r(*heads, 32), _r(*heads, 32)]  # noqa: E731
    turned = lambda: (lambda u: [(-u).detach().requires_grad_(), (u * 0.5).detach().requires_grad_()])(  # noqa: E731
        F.normalize(torch.randn(*heads, 32), dim=-1))  # fmt: skip
    dplr = lambda: [*low(), *turned(), _gate(*heads, 32)]  # noqa: E731
    add("chunk_dplr_delta_rule", lambda q, k, v, a, b, g: recurrence(q, k, v, gk=g, a=a, b=b), dplr)
    add("fused_recurrent_dplr_delta_rule", lambda q, k, v, a, b, g: recurrence(q, k, v, gk=g, a=a, b=b),
        lambda: [t.detach() for t in dplr()])  # fmt: skip
    iplr = lambda: [*low(), *turned()]  # noqa: E731
    add("fused_recurrent_iplr_delta_rule", lambda q, k, v, a, b: recurrence(q, k, v, a=a, b=b), iplr)
    add("chunk_iplr_delta_rule", lambda q, k, v, a, b: recurrence(q, k, v, a=a, b=b),
        lambda: [t.detach() for t in iplr()])  # fmt: skip
    add("chunk_rwkv7", lambda r, w, k, v, a, b: recurrence(r, k, v, gk=w, a=a, b=b, scale=1.0),
        lambda: (lambda t, ab: [t[0], _gate(*heads, 32), *t[1:], *ab])(low(), turned()))  # fmt: skip
    add("chunk_hgrn fused_recurrent_hgrn", _scan, lambda: [_r(B, T, 75), _gate(B, T, 75)])
    cases.append(Case("fla chunk_delta_rule(bfloat16)",
                      lambda *t: ops.chunk_delta_rule(*(x.bfloat16() for x in t))[0],
                      lambda q, k, v, b: recurrence(q, k, v, beta=b)[0],
                      lambda: [*_qkv(keys=_unit), _rate(*heads)], 3e-2))  # fmt: skip
    q, k = _r(*heads, K), _unit(*heads, K)
    beta = _rate(*heads)
    cases.append(Case("fla fused_recurrent_gated_delta_rule",
                      lambda q, k, v, g, b: ops.fused_recurrent_gated_delta_rule(q, k, v, g=g, beta=b)[0],
                      lambda q, k, v, g, b: recurrence(q, k, v, g=g, beta=b)[0],
                      lambda: [t.detach() for t in (q, k, _r(*heads, V), _gate(*heads), beta)], 5e-4))  # fmt: skip
    cases.append(Case("fla chunk_gated_delta_rule(state)",
                      lambda q, k, v, g, b, s: ops.chunk_gated_delta_rule(q, k, v, g=g, beta=b, initial_state=s,
                                                                          output_final_state=True),
                      lambda q, k, v, g, b, s: recurrence(q, k, v, g=g, beta=b, state=s),
                      lambda: [*_qkv(keys=_unit), _gate(*heads), _rate(*heads), _r(B, H, K, V)], 5e-4))  # fmt: skip
    cases.append(Case("fla chunk_gated_delta_rule(norms of q and k)",
                      lambda q, k, v, g, b: ops.chunk_gated_delta_rule(q, k, v, g=g, beta=b,
                                                                       use_qk_l2norm_in_kernel=True)[0],
                      lambda q, k, v, g, b: recurrence(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, g=g,
                                                       beta=b)[0],
                      lambda: [*_qkv(), _gate(*heads), _rate(*heads)], 5e-4))  # fmt: skip
    starts = [0, 17, 90, T * B]
    for name, gate, form in (("chunk_gla", (K,), "gk"), ("chunk_simple_gla", (), "g")):
        cases.append(Case(
            f"fla {name}(sequences)",
            lambda *t, name=name: getattr(ops, name)(*t, cu_seqlens=torch.tensor(starts, device="aule"))[0],
            _pieces(lambda q, k, v, g, form=form: recurrence(q, k, v, **{form: g}), starts),
            lambda gate=gate: [t.detach().flatten(0, 1)[None].requires_grad_()
                               for t in (*_qkv(), _gate(*heads, *gate))],
            5e-4,
        ))  # fmt: skip
    return cases


def _attentions(ops) -> list[Case]:
    def of(module, name):
        return getattr(importlib.import_module(f"fla.ops.{module}"), name)

    grouped = lambda: [_r(B, T, 4, 32), _r(B, T, 2, 32), _r(B, T, 2, 32)]  # noqa: E731
    return [
        Case("fla parallel_attn", of("attn", "parallel_attn"), _attention, grouped, 5e-4),
        Case("fla parallel_attn(window)", lambda q, k, v: of("attn", "parallel_attn")(q, k, v, window_size=19),
             lambda q, k, v: _attention(q, k, v, window=19), grouped, 5e-4),
        Case("fla parallel_forgetting_attn", of("forgetting_attn", "parallel_forgetting_attn"), _attention,
             lambda: [*grouped(), _gate(B, T, 4)], 5e-4),
        Case("fla parallel_based", lambda q, k, v: of("based", "parallel_based")(q, k, v),
             lambda q, k, v: _power(q, k, v, lambda s: 1 + s + s * s / 2), lambda: _qkv(16, 32), 1e-3),
        Case("fla fused_chunk_based", lambda q, k, v: of("based", "fused_chunk_based")(q, k, v),
             lambda q, k, v: _power(q, k, v, lambda s: 1 + s + s * s / 2), lambda: _qkv(16, 32), 1e-3),
        Case("fla parallel_rebased", lambda q, k, v: of("rebased", "parallel_rebased")(q, k, v, 1e-5, True, True),
             lambda q, k, v: _power(q, k, v, lambda s: s * s, eps=1e-5), lambda: _qkv(16, 32), 1e-3),
        Case("fla parallel_stickbreaking_attn",
             lambda q, k, v: of("stickbreaking_attn", "parallel_stickbreaking_attn")(q, k, v),
             lambda q, k, v: of("stickbreaking_attn", "naive_stickbreaking_attn")(q, k, v), lambda: _qkv(32, 32), 1e-3),
    ]  # fmt: skip


def _modules() -> list[Case]:
    def of(module, name):
        return getattr(importlib.import_module(f"fla.modules.{module}"), name)

    def silu_conv(x, w):
        y = F.conv1d(x.mT, w[:, None], padding=w.shape[1] - 1, groups=len(w))[..., : x.shape[1]]
        return F.silu(y.mT)

    def rms(x, w):
        return F.rms_norm(x, x.shape[-1:], w, 1e-5)

    def turned(x, cos, sin):
        a, b = x.chunk(2, -1)
        cos, sin = cos[None, :, None], sin[None, :, None]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def angles(n, size):
        return [(lambda t: t.cos())(torch.randn(n, size)), (lambda t: t.sin())(torch.randn(n, size))]

    labels = lambda: torch.randint(0, 129, (13,))  # noqa: E731
    return [
        Case("fla rms_norm", lambda x, w: of("norm.layernorm", "rms_norm")(x, w, None, eps=1e-5), rms,
             lambda: [_r(3, 5, 77), _r(77)]),
        Case("fla layer_norm", lambda x, w, b: of("norm.layernorm", "layer_norm")(x, w, b, eps=1e-5),
             lambda x, w, b: F.layer_norm(x, (77,), w, b, 1e-5), lambda: [_r(3, 5, 77), _r(77), _r(77)]),
        Case("fla rms_norm(residual)",
             lambda x, w, r: of("norm.layernorm", "rms_norm")(x, w, None, residual=r, eps=1e-5, prenorm=True),
             lambda x, w, r: (rms(x + r, w), x + r), lambda: [_r(3, 5, 77), _r(77), _r(3, 5, 77)]),
        Case("fla rms_norm_gated",
             lambda x, g, w: of("norm.fused_norm_gate", "rms_norm_gated")(x, g, w, None, eps=1e-5),
             lambda x, g, w: rms(x, w) * F.silu(g), lambda: [_r(3, 5, 77), _r(3, 5, 77), _r(77)]),
        Case("fla l2norm", of("norm.l2norm", "l2norm"), lambda x: F.normalize(x, dim=-1), lambda: [_r(3, 5, 77)]),
        Case("fla swiglu", of("activations", "swiglu"), lambda x, y: F.silu(x) * y, lambda: [_r(3, 77), _r(3, 77)]),
        Case("fla logsigmoid", of("activations", "logsigmoid"), F.logsigmoid, lambda: [_r(3, 77)]),
        Case("fla swish", of("activations", "swish"), F.silu, lambda: [_r(3, 77)]),
        Case("fla causal_conv1d",
             lambda x, w: _first(of("causal_conv1d", "causal_conv1d")(x, w, activation="silu")), silu_conv,
             lambda: [_r(2, 37, 48), _r(48, 4)]),
        Case("fla rotary_embedding", lambda *t: of("rotary", "rotary_embedding")(*t), turned,
             lambda: [_r(2, 37, 3, 32), *angles(37, 16)]),
        Case("fla cross_entropy_loss",
             lambda x, t: _first(of("fused_cross_entropy.ops", "cross_entropy_loss")(x * 1, t)).sum(),
             lambda x, t: F.cross_entropy(x, t, reduction="sum"), lambda: [_r(13, 129), labels()]),
        Case("fla fused_linear_cross_entropy_loss",
             lambda x, t, w: of("fused_linear_cross_entropy.ops", "fused_linear_cross_entropy_loss")(x, t, w),
             lambda x, t, w: F.cross_entropy(x @ w.mT, t), lambda: [_r(13, 24), labels(), _r(129, 24)]),
        Case("fla fused_kl_div_loss", lambda *t: of("fused_kl_div.ops", "fused_kl_div_loss")(*t),
             lambda x, y, w, v: F.kl_div(F.log_softmax(x @ w.mT, -1), F.log_softmax(y @ v.mT, -1), log_target=True,
                                         reduction="batchmean"),
             lambda: [_r(13, 24), torch.randn(13, 24), _r(129, 24), torch.randn(129, 24)]),
        Case("fla token_shift", lambda x: _first(of("token_shift", "token_shift")(x)),
             lambda x: F.pad(x, (0, 0, 1, -1)) - x, lambda: [_r(2, 37, 48)]),
    ]  # fmt: skip


def _helpers() -> list[Case]:
    ops = importlib.import_module("fla.ops.utils")

    def inverse(a):
        lower = a.view(B, 128, H, -1).transpose(1, 2).reshape(B, H, 2, 64, 64).tril(-1)
        x = torch.linalg.inv(lower + torch.eye(64).to(a))
        return x.reshape(B, H, 128, 64).transpose(1, 2)

    return [
        Case("fla chunk_local_cumsum", lambda g: ops.chunk_local_cumsum(g, 16),
             lambda g: torch.cat([p.cumsum(1) for p in g.split(16, 1)], 1), lambda: [torch.randn(B, T, H)]),
        Case("fla chunk_global_cumsum", lambda g: ops.chunk_global_cumsum(g), lambda g: g.cumsum(1),
             lambda: [torch.randn(B, T, H, K)]),
        Case("fla mean_pooling", lambda x: ops.mean_pooling(x, 16),
             lambda x: torch.stack([p.mean(1) for p in x.split(16, 1)], 1), lambda: [_r(B, T, H, K)]),
        Case("fla matmul", lambda a, b: ops.matmul(a, b), lambda a, b: a @ b,
             lambda: [torch.randn(37, 50), torch.randn(50, 70)]),
        Case("fla softmax_fwd", lambda x: ops.softmax_fwd(x), lambda x: x.softmax(-1), lambda: [torch.randn(5, 77)]),
        Case("fla logsumexp_fwd", lambda x: ops.logsumexp_fwd(x), lambda x: x.logsumexp(-1),
             lambda: [torch.randn(5, 77)]),
        Case("fla solve_tril", lambda a: ops.solve_tril(a), inverse,
             lambda: [(torch.randn(B, 2, H, 64, 64) * 0.1).tril(-1).transpose(2, 3).reshape(B, 128, H, 64)],
             1e-3),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Every operator."""
    ops = importlib.import_module("fla.ops")
    return [*_modules(), *_helpers(), *_recurrent(ops), *_attentions(ops)]
