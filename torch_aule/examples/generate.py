"""Generates tokens one after the other from a key-value cache, and all over again without one.

    python -m torch_aule.examples.generate

With the cache a step computes one position and reads the keys and values of those before
(`torch_aule.flash_attn_with_kvcache`); without it a step computes every position. Both must choose the same tokens, and
the logits are those of the CPU in float64. The weights are random.
"""

from __future__ import annotations

import copy
import sys

from torch_aule.examples import _common as common  # isort: skip  (strict mode, before the backend loads)

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_aule.measure.timing import Stopwatch, synchronize


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, cache, used):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)  # [B, N, heads, D]
        if cache is None:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        else:
            import torch_aule

            attended = torch_aule.flash_attn_with_kvcache(q, *cache, k, v, cache_seqlens=used, causal=True)
        x = x + self.out(attended.flatten(2))
        return x + self.mlp(self.norms[1](x))


class Decoder(nn.Module):
    """Logits of the next tokens: codes [B, N] -> [B, N, vocabulary]; with caches, N new ones after `used` rows."""

    def __init__(self, vocabulary=40, width=32, heads=2, layers=2, context=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)
        self.shape = (context, heads, width // heads)

    def caches(self, batch: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Room for the keys and values of each layer."""
        like = self.head.weight
        return [(like.new_zeros(batch, *self.shape), like.new_zeros(batch, *self.shape)) for _ in self.layers]

    def forward(self, codes, caches=None, used=None):
        places = torch.arange(codes.shape[1], device=codes.device)
        places = places if used is None else places + used[:, None]
        x = self.tokens(codes) + self.places(places)
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers), strict=True):
            x = layer(x, cache, used)
        return self.head(self.norm(x))


@torch.no_grad()
def generate(model: Decoder, codes: torch.Tensor, count: int, cached: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest continuation [B, N + count], and the logits that chose it [B, count, vocabulary]."""
    caches = model.caches(len(codes)) if cached else None
    used = torch.zeros(len(codes), dtype=torch.int32, device=codes.device) if cached else None
    new, chosen = codes, []
    for _ in range(count):
        logits = model(new if cached else codes, caches, used)[:, -1]
        if used is not None:
            used += new.shape[1]
        new = logits.argmax(-1, keepdim=True)
        codes = torch.cat((codes, new), 1)
        chosen.append(logits)
    return codes, torch.stack(chosen, 1)


def main(arguments=None) -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--batch", type=int, default=2)
    options = parser.parse_args(arguments)
    if not 1 <= options.tokens <= 59:
        parser.error(f"--tokens {options.tokens}: expected 1 to 59, the context of 64 without the beginning of 5")
    device = common.begin(options.device)
    torch.manual_seed(0)
    model, start = Decoder().to(device), torch.randint(40, (options.batch, 5)).to(device)
    results = {}
    for cached in (True, False) if device.type != "cpu" else (False,):
        generate(model, start, 2, cached)
        begun = Stopwatch()
        results[cached] = generate(model, start, options.tokens, cached)
        synchronize(device)
        rate = options.tokens * options.batch / begun.seconds
        print(f"{'with' if cached else 'without'} a cache: {rate:.0f} tokens/s")
    codes, logits = next(iter(results.values()))
    with torch.no_grad():  # the same tokens, all at once
        expected = copy.deepcopy(model).cpu().double()(codes.cpu()[:, :-1])[:, 4:]
    for one in results.values():
        if not torch.equal(one[0], codes):
            print("with and without a cache the tokens differ", file=sys.stderr)
            return 1
    print("tokens:", *codes[0].tolist())
    return common.verdict(max(common.relative(one[1], expected) for one in results.values()))


if __name__ == "__main__":
    sys.exit(main())
