"""Operators in Triton of bitsandbytes for `triton_packages`: against its own operators on the CPU."""

from __future__ import annotations

import importlib

import torch
from triton_packages import Case


def _table() -> torch.Tensor:
    return importlib.import_module("bitsandbytes.functional").create_dynamic_map()


def _packed(n: int, kind: str) -> list:
    weight = torch.randn(n)
    packed, absmax = torch.ops.bitsandbytes.quantize_4bit(weight, 64, kind, torch.uint8)
    return [packed, absmax]


def _updated(function, name: str, second: bool):
    """An optimizer's step as a function of its tensors."""

    def step(g, p, state1, state2=None):
        # float32 on the CPU too: the operator has no other.
        g, p, state1 = g.float(), p.float().clone(), state1.float().clone()
        state2 = state2.float().clone() if second else None
        function(name, g, p, state1, state2, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.01, 3, 1e-2, 1.0, False)
        return p, state1, state2

    return step


def cases() -> list[Case]:
    """Every operator."""
    importlib.import_module("bitsandbytes")
    ours = importlib.import_module("bitsandbytes.backends.triton.ops")
    own = torch.ops.bitsandbytes

    def bytes_of(n):
        return lambda: list(own.quantize_blockwise.default(torch.randn(n), _table(), 64))

    # Of a number between two of a table either is right, and -0 is 0: what is compared is how far they are off. The
    # CPU's blockwise one takes the farther of two where they are nearly as far.
    def blockwise(quantize):
        def off(x):
            x = x.float()
            codes, scales = quantize(x, _table().to(x.device), 64)
            return x.cpu() - own.dequantize_blockwise.default(codes.cpu(), scales.cpu(), _table(), 64, torch.float32)

        return lambda x: off(x).abs()

    def packed(quantize, kind):
        def off(x):
            x = x.float()
            codes, scales = (t.cpu() for t in quantize(x, 64, kind, torch.uint8))
            return x.cpu() - own.dequantize_4bit.default(codes, scales, 64, kind, x.shape, torch.float32)

        return lambda x: off(x).abs()

    found = [
        Case("bitsandbytes quantize_blockwise", blockwise(ours.quantize_blockwise),
             blockwise(own.quantize_blockwise.default), lambda: [torch.randn(1000)], 1e-3),
        Case("bitsandbytes dequantize_blockwise",
             lambda q, s: ours.dequantize_blockwise(q, s, _table().to("aule"), 64, torch.float32),
             lambda q, s: own.dequantize_blockwise.default(q, s.float(), _table(), 64, torch.float32), bytes_of(1000)),
    ]  # fmt: skip
    for kind in ("nf4", "fp4"):
        found += [
            Case(f"bitsandbytes quantize_4bit({kind})", packed(ours.quantize_4bit, kind),
                 packed(own.quantize_4bit.default, kind), lambda: [torch.randn(32, 64)]),
            Case(f"bitsandbytes dequantize_4bit({kind})",
                 lambda q, s, k=kind: ours.dequantize_4bit(q, s, 64, k, (33, 64), torch.float32),
                 lambda q, s, k=kind: own.dequantize_4bit.default(q, s.float(), 64, k, (33, 64), torch.float32),
                 lambda k=kind: _packed(33 * 64, k)),
        ]  # fmt: skip
    for name, second in (("adam", True), ("momentum", False), ("rmsprop", False), ("lion", False), ("adagrad", False)):
        found.append(Case(
            f"bitsandbytes optimizer_update_32bit({name})", _updated(ours.optimizer_update_32bit, name, second),
            _updated(own.optimizer_update_32bit.default, name, second),
            lambda second=second: [torch.randn(999), torch.randn(999), torch.rand(999),
                                   *([torch.rand(999)] if second else [])],
        ))  # fmt: skip
    return found
