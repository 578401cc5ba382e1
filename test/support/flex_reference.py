"""Attention with modifiers in float64 on the CPU, and random modifiers."""

import random

import torch


def positions(batch, heads, queries, keys):
    """b, h, m, n of all scores."""
    shapes = [(-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, -1)]
    return [torch.arange(x).reshape(s) for x, s in zip((batch, heads, queries, keys), shapes, strict=True)]


def reference(q, k, v, score_mod=None, mask_mod=None):
    """Output, logsumexp and maxima (natural units); a row that sees nothing is 0."""
    share = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(share, 1).expand(q.shape[0], -1, -1, -1) for x in (k, v))
    s = q @ k.mT / q.shape[-1] ** 0.5
    b, h, m, n = positions(*s.shape)
    shown = torch.ones_like(s, dtype=torch.bool)
    if score_mod is not None:
        s = score_mod(s, b, h, m, n)
    if mask_mod is not None:
        shown = (shown & mask_mod(b, h, m, n)) & (s > -float("inf"))
    some = shown.any(-1, keepdim=True)
    top = torch.where(shown, s, -float("inf")).amax(-1, keepdim=True).detach()
    e = torch.where(shown, torch.exp(torch.where(shown, s, 0) - torch.where(some, top, 0)), 0)
    total = e.sum(-1, keepdim=True)
    p = e / torch.where(some, total, 1)
    lse = torch.where(some, torch.where(some, top, 0) + torch.log(torch.where(some, total, 1)), -float("inf"))
    return p @ v, lse.squeeze(-1), torch.where(some, top, -float("inf")).squeeze(-1)


class RandomModifiers:
    """A random score_mod and mask_mod of `seed`; `tensors` are what they capture, by name."""

    def __init__(self, seed, batch, heads, length):
        self.rng = random.Random(seed)
        g = torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
        self.length = length
        self.tensors = {
            "slope": draw(heads), "relative": draw(2 * length), "row": draw(length), "column": draw(batch, length),
            "plane": draw(heads, length, length), "document": torch.randint(0, 3, (batch, length), generator=g),
            "seen": torch.randint(1, length + 1, (batch,), generator=g),
            "code": torch.randint(-5, 6, (length,), generator=g, dtype=torch.int32),
        }  # fmt: skip
        self.score_steps = self.rng.sample(range(10), self.rng.randint(1, 4))
        self.mask_steps = self.rng.sample(range(7), self.rng.randint(0, 3))
        self.number = self.rng.uniform(0.5, 3)
        self.window = self.rng.randint(1, length)

    def trained(self):
        """Names of the captured tensors that score_mod reads and that have gradients."""
        used = {0: "slope", 1: "relative", 2: "row", 3: "column", 4: "plane"}
        return [used[i] for i in self.score_steps if i in used]

    def score_mod(self, t):
        """score_mod over the tensors `t`."""
        steps, number, length = self.score_steps, self.number, self.length

        def mod(score, b, h, m, n):
            for step in steps:
                if step == 0:
                    score = score - t["slope"][h] * (m - n).abs() / 8
                elif step == 1:
                    score = score + t["relative"][m - n + length]
                elif step == 2:
                    score = score * torch.sigmoid(t["row"][m])
                elif step == 3:
                    score = score + t["column"][b, n] ** 2 * 0.1
                elif step == 4:
                    score = score + t["plane"][h, m, n]
                elif step == 5:
                    score = number * torch.tanh(score / number)
                elif step == 6:
                    score = torch.where((m // 3 + n) % 4 == 1, score * 0.5, score)
                elif step == 7:
                    score = score + torch.sin(m * 0.3) - torch.cos(n * 0.2)
                elif step == 8:
                    score = torch.clamp(score, -number, number) + t["code"][n] * 0.1
                else:
                    score = torch.where(t["code"][m] > t["code"][n], score, -score)
            return score

        return mod

    def mask_mod(self, t):
        """mask_mod over the tensors `t`, or None."""
        steps, window = self.mask_steps, self.window

        def mod(b, h, m, n):
            shown = m == m
            for step in steps:
                if step == 0:
                    shown = shown & (m >= n)
                elif step == 1:
                    shown = shown & ((m - n).abs() < window)
                elif step == 2:
                    shown = shown & (t["document"][b, m] == t["document"][b, n])
                elif step == 3:
                    shown = shown & (n < t["seen"][b])
                elif step == 4:
                    shown = shown | ((m + n) % 5 == 2)
                elif step == 5:
                    shown = shown & ((h % 2 == 0) | (n <= m))
                else:
                    shown = shown ^ (t["code"][n] == 3)
            return shown

        return mod if steps else None
