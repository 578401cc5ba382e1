"""Reference kernels beside a copy, and attention with positions and block masks beside plain attention."""

from __future__ import annotations

import torch

from torch_aule.benchmark.harness.case import Case, Sizes, randn, short
from torch_aule.benchmark.harness.kernels import KERNELS
from torch_aule.benchmark.harness.targets import MEMORY_BOUND, Target

BLOCK = 128  # queries and keys of a block


def _rows(sizes: Sizes) -> tuple[int, int]:
    return (512, 256) if sizes.software else sizes.rows


def _kernel(name: str, mode: str, shapes: str, extents: dict[str, int], dtype: torch.dtype) -> Case:
    kernel = KERNELS[name]
    label = name if mode == "forward" else f"{name}_{mode}"
    return Case("reference", label, shapes, short(dtype), lambda device: kernel.make(extents, dtype, mode, device),
                bytes=kernel.work(extents, dtype, mode)[0], target=MEMORY_BOUND, aule_only=True)  # fmt: skip


def _attention(sizes: Sizes, form: str, share: float, causal: bool, least: float | None) -> Case:
    """`share`: of the blocks that are kept, at random, in each row of them alike."""
    batch, heads, n, d = (1, 2, 256, 32) if sizes.software else (4, 16, 4096, 128)
    dtype = torch.float32 if sizes.software else torch.float16

    def make(device):
        import torch_aule
        from torch_aule import functional

        q, k, v = (randn(batch, heads, n, d, device=device, dtype=dtype) for _ in range(3))
        if form == "ALiBi":
            slopes = functional.alibi_slopes(heads, device=device)
            return lambda: torch_aule.flash_attention(q, k, v, causal=causal, alibi_slopes=slopes)
        if form == "rotary":
            cos, sin = functional.precompute_rope_frequencies(n, d, device=device)
            return lambda: functional.flash_attention_rope(q, k, v, cos, sin, causal=causal)
        if form == "block-sparse":
            blocks = n // BLOCK
            kept = max(1, round(share * blocks))
            mask = torch.zeros(blocks, blocks, dtype=torch.bool)
            generator = torch.Generator().manual_seed(0)
            for row in mask:
                row[torch.randperm(blocks, generator=generator)[:kept]] = True
            mask = mask.to(device)
            return lambda: functional.block_sparse_attention(q, k, v, mask, block_size=BLOCK)
        return lambda: torch_aule.flash_attention(q, k, v, causal=causal)

    def key(name):
        name = f"{name} attention{' causal' if causal else ''}"
        return "reference", name, f"B{batch} H{heads} N{n} D{d}", short(dtype)

    name = f"{form} {share:g} of blocks" if form == "block-sparse" else form
    target = Target("twin", least, 1.0, twin=key("plain")) if least else None
    flops = 4.0 * batch * heads * n * n * d * share * (0.5 if causal else 1)
    _, name, shapes, _ = key(name)
    return Case("reference", name, shapes, short(dtype), make, flops=flops, target=target, aule_only=True)


def reference(sizes: Sizes) -> list[Case]:
    dtypes = (torch.float32,) if sizes.software else (torch.float32, torch.bfloat16)
    rows, width = _rows(sizes)
    outputs = width // 2
    cases = [_kernel("diagonal_matmul", mode, f"{rows}x{width}", {"N": rows, "M": width}, dtype)
             for dtype in dtypes for mode in ("forward", "backward")]  # fmt: skip
    cases += [_kernel("fused_linear_rowsum", "forward", f"{rows}x{width}, {outputs} outputs",
                      {"B": rows, "K": width, "N": outputs}, dtype) for dtype in dtypes]  # fmt: skip
    for causal in (False, True):
        cases.append(_attention(sizes, "plain", 1, causal, None))
        cases += [_attention(sizes, form, 1, causal, 0.9) for form in ("ALiBi", "rotary")]
    return cases + [_attention(sizes, "block-sparse", share, False, 0.75) for share in (1, 0.5, 0.25, 0.125)]
