"""Attention, forward and backward, beside CUDA's FlashAttention-2 and cuDNN's.

On GPUs batch x heads x N x D is 2^26. A call counts as 4 B H N^2 D operations (half when causal), 2.5 times that
backward.
"""

from __future__ import annotations

import contextlib
import itertools
import os

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import HALF, Case, Sizes, randn, short
from torch_aule.benchmark.harness.targets import ATTENTION, ATTENTION_FORMS, Target


def sdpa_backend(name: str):
    """A context in which scaled_dot_product_attention takes one CUDA backend only, or raises."""

    def context():
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(getattr(SDPBackend, name))

    return context


FLASH = {"cuda": sdpa_backend("FLASH_ATTENTION")}
FLASH_AND_CUDNN = {**FLASH, "cudnn": sdpa_backend("CUDNN_ATTENTION")}


class Override:
    """A context in which kernels are planned otherwise; it can be entered again and again.

    `values` are settings of `torch_aule.tune.override` as text. Builds that lack it read the environment at every call.
    """

    def __init__(self, **values: str):
        self.values = values

    def __enter__(self):
        if not self.values:  # also in the child, which has no extension
            return
        from torch_aule import _C

        if hasattr(_C, "set_overrides"):
            self.before, changed = _C.overrides(), _C.overrides()
            for name, text in self.values.items():
                changed.set(name, text)
            _C.set_overrides(changed)
        else:
            variables = {f"AULE_{name.upper()}": text for name, text in self.values.items()}
            self.before = {name: os.environ.get(name) for name in variables}
            os.environ.update(variables)

    def __exit__(self, *error):
        if not self.values:
            return
        from torch_aule import _C

        if hasattr(_C, "set_overrides"):
            _C.set_overrides(self.before)
            return
        for name, text in self.before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


OPAQUE_NAMES = ("coopmat_opaque", "staged")  # of today, and of builds before that


def form_settings(form: str, d: int) -> Override:
    """The words that ask for a form of attention: the end of the case's name."""
    if form == "two_passes":
        return Override(attention_workspace="0")
    if form != "opaque":
        return Override()
    from torch_aule.attention import active_attention_variants

    # As if the layout of accumulators were unknown. Old builds pass over a name that they do not know.
    for name in OPAQUE_NAMES:
        settings = Override(attention_variant=name)
        with contextlib.suppress(ValueError), settings:
            if active_attention_variants(d)["forward"] == name:
                return settings
    if torch.aule.get_device_properties().kind != "cpu":
        raise RuntimeError("this device has no attention on matrix units of unknown layout")
    return Override()


def _key(n, d, causal, backward, dtype, *, batch, heads, kv_heads, dropout=0.0, form="") -> tuple[str, str, str, str]:
    name = f"sdpa_{'backward' if backward else 'forward'}{'_causal' if causal else ''}{'_' + form if form else ''}"
    shapes = f"B{batch} H{heads}/{kv_heads} N{n} D{d}" + (f" dropout {dropout}" if dropout else "")
    return "attention", name, shapes, short(dtype)


def _case(n, d, causal, backward, dtype, *, batch, heads, kv_heads=None, dropout=0.0, form="", **more) -> Case:
    kv_heads = kv_heads or heads

    def make(device):
        q = randn(batch, heads, n, d, device=device, dtype=dtype, grad=backward)
        k, v = (randn(batch, kv_heads, n, d, device=device, dtype=dtype, grad=backward) for _ in range(2))
        settings = form_settings(form, d) if device == "aule" else Override()

        def forward():
            with settings:
                return F.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, dropout_p=dropout, enable_gqa=kv_heads != heads
                )

        if not backward:
            return forward
        out = forward()
        weight = torch.randn(out.shape, device=device, dtype=dtype)

        def grad():
            with settings:
                return torch.autograd.grad(out, (q, k, v), weight, retain_graph=True)

        return grad

    pairs = batch * heads * n * n * (0.5 if causal else 1)
    q_elems, kv_elems = batch * heads * n * d, batch * kv_heads * n * d
    return Case(
        *_key(n, d, causal, backward, dtype, batch=batch, heads=heads, kv_heads=kv_heads, dropout=dropout, form=form),
        make, flops=4.0 * pairs * d * (2.5 if backward else 1), autograd=backward,
        needed_bytes=dtype.itemsize * (q_elems + 2 * kv_elems if backward else q_elems) + 4 * batch * heads * n,
        **{"baselines": FLASH, "main": False, **more},
    )  # fmt: skip


def _software() -> list[Case]:
    def case(batch, heads, n, d, *, causal=True, backward=False, dtype=torch.float32, most=None, **more):
        target = Target("cpu", most) if most else None
        return _case(n, d, causal, backward, dtype, batch=batch, heads=heads, clock="wall", baselines=None,
                     main=most is not None, target=target, **more)  # fmt: skip

    return [
        case(1, 8, 512, 64, most=8.0),
        case(1, 8, 512, 64, backward=True, most=10.0),
        case(1, 8, 512, 64, causal=False),
        case(4, 4, 128, 32),
        case(4, 4, 128, 32, backward=True),
        case(1, 8, 256, 64, kv_heads=2),
        case(1, 4, 1024, 64),
        case(1, 4, 256, 128),
        case(1, 8, 512, 64, dtype=torch.bfloat16),
    ]


def attention(sizes: Sizes) -> list[Case]:
    if sizes.software:
        return _software()

    def layout(n, d, group=1):
        batch_heads = max(1, sizes.total // (n * d))
        heads = 16 if batch_heads % 16 == 0 else batch_heads
        return {"batch": batch_heads // heads, "heads": heads, "kv_heads": heads // group}

    def twin(n, d, causal, backward):
        return _key(n, d, causal, backward, half, **layout(n, d))

    half = torch.float16
    cases = []
    modes = list(itertools.product((False, True), (False, True)))  # backward, causal
    for dtype, (backward, causal), d in itertools.product(HALF, modes, sizes.dims):
        for index, n in enumerate(sizes.lengths):
            if dtype is half:
                row = ATTENTION.get((backward, d, causal), (0.0, 0.0, None))
                target = Target("cuda", row[index], row[2])
            else:
                target = Target("twin", 0.95, twin=twin(n, d, causal, backward))
            cases.append(_case(n, d, causal, backward, dtype, target=target, baselines=FLASH_AND_CUDNN, main=True,
                               **layout(n, d)))  # fmt: skip
    for form, (backward, causal), d in itertools.product(("opaque", "two_passes"), modes, sizes.dims):
        if form == "two_passes" and not (backward and d == max(sizes.dims)):
            continue  # narrower heads have two passes anyway
        row = ATTENTION_FORMS.get((form, backward, causal))
        for index, n in enumerate(sizes.lengths):
            target = Target("cuda", row[index], row[2]) if row else None
            cases.append(_case(n, d, causal, backward, half, target=target, form=form, **layout(n, d)))
    for (backward, causal), d, n in itertools.product(modes, sizes.dims, sizes.plot_lengths):
        if n not in sizes.lengths:
            cases.append(_case(n, d, causal, backward, half, baselines=FLASH_AND_CUDNN, **layout(n, d)))
    # Held against the nearest head dim at the same length, or the nearest length at the same head dim.
    n = sizes.other_length
    for (backward, causal), d in itertools.product(modes, sizes.other_dims):
        near = min(sizes.dims, key=lambda x: (abs(x - d), -x))
        target = Target("twin", 0.85, twin=twin(n, near, causal, backward))
        cases.append(_case(n, d, causal, backward, half, target=target, **layout(n, d)))
    odd, even = sizes.odd_length
    for (backward, causal), d in itertools.product(modes, sizes.dims):
        target = Target("twin", 0.85, twin=twin(even, d, causal, backward))
        cases.append(_case(odd, d, causal, backward, half, target=target, **layout(even, d)))
    for group, dropout in ((8, 0.0), (1, 0.1)):
        for (backward, causal), d in itertools.product(modes, sizes.dims):
            target = Target("twin", 0.85, twin=twin(n, d, causal, backward))
            cases.append(_case(n, d, causal, backward, half, target=target, dropout=dropout, **layout(n, d, group)))
    return cases
