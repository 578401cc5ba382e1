"""Sizes that change between calls: one compiled function serves them all."""

import torch
import torch.nn.functional as F

from compiled.row import Table, bools, ints, normal

table = Table("sizes", tolerance=1e-4)


def each(name, function, inputs, sizes=(5, 17, 64, 30), **options):
    table(name, function, inputs, sizes=sizes, **options)


for name, function in {
    "pointwise": lambda x: F.gelu(x * 2) + x.shape[0],
    "sums": lambda x: (x.sum(), x.sum(0), x.sum(1), x.mean(), x.amax(0), x.var(1)),
    "softmax": lambda x: (x.softmax(0), x.softmax(1), x.logsumexp(0)),
    "indices": lambda x: (x.argmax(0), x.argmin(1), x.max(0)[1]),
    "slices": lambda x: (x[1:] - x[:-1], x[::2] * 2, x[:, : x.shape[1] // 2], x[-3:]),
    "views": lambda x: (x.reshape(-1) * 2, x.t().contiguous(), x.view(x.shape[0], -1, 1) + 1, x.flip(0)),
    "transposed": lambda x: (x.t() + 1, (x * 2).t().sum(0), x.t() @ x),
    "concatenated": lambda x: (torch.cat([x, x * 2]), torch.cat([x, x[:, :3]], 1), torch.stack([x, x])),
    "padded": lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 3, 0)).sum(0), F.pad(x[None], (2, 2), mode="reflect")),
    "sizes as numbers": lambda x: (
        x / x.shape[0],
        x * x.numel(),
        x + x.shape[1] ** 0.5,
        x.new_full((x.shape[0],), x.shape[1]),
    ),
    "positions": lambda x: (
        x + torch.arange(x.shape[0], device=x.device)[:, None] - torch.arange(x.shape[1], device=x.device) % 3
    ),
    "causal": lambda x: (
        (x @ x.t()).masked_fill(torch.ones(x.shape[0], x.shape[0], device=x.device).triu(1) > 0, -torch.inf).softmax(-1)
        @ x
    ),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]) * 2,
    "linear layers": lambda x: F.relu(x @ x.t()) @ x,
    "running sums": lambda x: (x.cumsum(0), x.cumsum(1)),
    "sorted": lambda x: (*x.sort(0), *x.topk(3, 0)),
    "gathers": lambda x: (x[torch.arange(x.shape[0] - 1, -1, -1, device=x.device)], x[:, x.argmax(1) % 3]),
    "repetition": lambda x: (x.repeat(2, 1), x[:, None].expand(-1, 3, -1) + 1, x.repeat_interleave(2, 0)),
    "rolled": lambda x: (x.roll(1, 0), x.roll(-2, 1) * 2),
    "windows": lambda x: (x.unfold(0, 3, 1).sum(-1), x.unfold(1, 4, 2)),
    "triangles": lambda x: (x.tril(), x.triu(1), x.diagonal() * 2),
    "standard scores": lambda x: (x - x.mean(0)) / (x.std(0) + 1e-3),
    "chunks": lambda x: x[: x.shape[0] // 2] + x[x.shape[0] - x.shape[0] // 2 :],
    "interpolated": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    "pooled": lambda x: (F.max_pool2d(x[None], 2), F.avg_pool2d(x[None], 3, 1, 1)),
    "half of a row": lambda x: torch.where(torch.arange(x.shape[1], device=x.device) < x.shape[1] // 2, x, 0).sum(1),
    "floor of a size": lambda x: x * (x.shape[0] // 3) + x.shape[1] % 4,
    "halves": lambda x: (x.half() * 2, x.bfloat16().sum(1), x.half().softmax(0)),
    "float64": lambda x: (x.double().sum(0), x.double() * x.shape[0]),
    "integers": lambda x: ((x * 10).int() // 3, (x * 10).long() % 7, (x * 10).int().sum(1)),
    "mutated": lambda x: (x.add_(1), x.sum(0))[1],
    "a slice is set": lambda x: (y := x.clone(), y.__setitem__((slice(1, -1), 0), 5.0), y * 2)[2],
    "views are results": lambda x: (x.t(), x[1:], (x + 1).view(-1)),
}.items():
    grads = (
        "pointwise",
        "sums",
        "softmax",
        "slices",
        "layer norm",
        "causal",
        "concatenated",
        "standard scores",
        "transposed",
    )
    each(name, function, lambda n: (normal(n, n + 7),), grad=name in grads)

each(
    "rows alone change",
    lambda x, w: F.layer_norm(x @ w, (24,)).softmax(-1),
    lambda n: (normal(n, 16), normal(16, 24)),
    grad=True,
)
each(
    "columns alone change",
    lambda x: (x.softmax(-1), x.sum(-1), x.amax(-1), x.var(-1)),
    lambda n: (normal(6, n * 41),),
    grad=True,
)
each("multiples of 8", lambda x: (F.gelu(x), x.sum(1), x.softmax(1)), lambda n: (normal(4, 8 * n),))
each("long rows", lambda x: (x.sum(1), x.softmax(1), x.argmax(1)), lambda n: (normal(2, n * 1001),), sizes=(2, 9, 33))
each("long sums", lambda x: (x.sum(), x.mean(), x.amax()), lambda n: (normal(n * 5003),), sizes=(2, 30))
each(
    "two sizes",
    lambda x, y: x[:, None] * y[None, :] + (x.sum() - y.mean()),
    lambda n: (normal(n), normal(2 * n + 1)),
    grad=True,
)
each(
    "embeddings",
    lambda w, i: F.embedding(i, w).sum(1),
    lambda n: (normal(20, 8), ints(n, 5, low=0, high=20)),
    grad=True,
)
each(
    "scatters",
    lambda x, i: torch.zeros(10, 8, device=x.device, dtype=x.dtype).index_add(0, i, x),
    lambda n: (normal(n, 8), ints(n, low=0, high=10)),
    grad=True,
)
each("masks", lambda x, m: x.masked_fill(m, -1.0).amax(0), lambda n: (normal(n, 9), bools(n, 9)))
each("attention", lambda q: F.scaled_dot_product_attention(q, q * 2, q), lambda n: (normal(2, 2, n, 16),), grad=True)
each(
    "attention, causal",
    lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True) + 1,
    lambda n: (normal(1, 2, n, 16),),
)
each(
    "convolution",
    lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
    lambda n: (normal(1, 3, n, n + 2), normal(4, 3, 3, 3)),
    grad=True,
)
each("cross entropy", lambda x, t: F.cross_entropy(x, t), lambda n: (normal(n, 13), ints(n, low=0, high=13)), grad=True)
each(
    "channels last",
    lambda x: (x.contiguous(memory_format=torch.channels_last) * 2).sum(1),
    lambda n: (normal(2, 3, n, 4),),
)
each("batch norm", lambda x: F.batch_norm(x, None, None, training=True), lambda n: (normal(n, 6),))
each("a number of the caller", lambda x, k: x * k + k // 2, lambda n: (normal(9), n))
each("a real number of the caller", lambda x, k: (x * k, x + k / 3), lambda n: (normal(9), n * 0.37))
each(
    "a size of the caller",
    lambda x, k: x[:k].sum(0) + torch.zeros(k, device=x.device).sum(),
    lambda n: (normal(70, 4), n),
)
each("sizes that divide", lambda x: x.view(-1, 4, 8).sum(1), lambda n: (normal(n, 32),))
each("empty, too", lambda x: (x * 2, x.sum(0)), lambda n: (normal(n, 4),), sizes=(5, 0, 3))
each("one, too", lambda x: (x * 2, x.sum(0), x.softmax(0)), lambda n: (normal(n, 4),), sizes=(5, 1, 3))
