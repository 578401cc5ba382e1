"""Gathers, scatters, masks, embeddings: what an index reads and writes, negative ones, repeated ones."""

import torch
import torch.nn.functional as F

from compiled.row import Table, bools, ints, like, normal

table = Table("indexing", tolerance=1e-4)
X, T5 = normal(12, 30), normal(3, 4, 5, 6)
ROWS, COLUMNS = ints(17, low=-12, high=12), ints(17, low=-30, high=30)


def _at(x, *numbers):
    return torch.tensor(numbers, device=x.device)


for name, function in {
    "rows": lambda x, i, j: (x[i] * 2, x[i, 3:9] + 1, x[i][:, ::2]),
    "columns": lambda x, i, j: (x[:, j] + 1, x[2:5, j], x.t()[j]),
    "both": lambda x, i, j: (x[i, j] * 2, x[i[:, None], j[None]], x[i][:, j]),
    "computed": lambda x, i, j: (x[(i + 13) % 12] + 1, x[i // 2, j // 3], x[-i.abs() // 2]),
    "and a function": lambda x, i, j: x.exp()[i].sum(1) + x[i].mean(1),
    "of an index": lambda x, i, j: x[i[i % 17]] - x[i.flip(0)],
    "select": lambda x, i, j: (x.index_select(0, i % 12), x.index_select(1, j % 30) * 2),
    "take": lambda x, i, j: (x.take(i * 30 + j % 30), x.take_along_dim(i[:12, None] % 30, 1)),
    "gather": lambda x, i, j: (
        x.gather(1, (j % 30)[:12, None]),
        x.gather(0, (i % 12)[None].expand(1, 17)),
        (x * 2).gather(1, (j % 30)[None, :].expand(12, 17)),
    ),
    "int32 indices": lambda x, i, j: (x[i.int()], x[:, j.int()] * 2),
    "a mask of comparisons": lambda x, i, j: x.masked_fill(x[i[:1]] > 0, 3.0),
    "add rows": lambda x, i, j: (x.index_add(0, i % 12, x[i] * 2), x.index_add(1, j % 30, x[:, j], alpha=-0.5)),
    "copy rows": lambda x, i, j: x.index_copy(0, _at(x, 3, 5, 7), x[:3] * 2),
    "fill rows": lambda x, i, j: (x.index_fill(0, i % 12, 5.0), x.index_fill(1, _at(x, 2, 4), -1.0)),
    "put": lambda x, i, j: (
        x.index_put((_at(x, 1, 3, 5), _at(x, 2, 2, 4)), _at(x, 1.0, 2.0, 3.0).to(x.dtype)),
        x.index_put((i,), torch.ones_like(x[0]), accumulate=True),
    ),
    "scatter": lambda x, i, j: (
        x.scatter(1, torch.arange(30, device=x.device).flip(0).expand(12, 30), x * 2),
        x.scatter(0, _at(x, 1, 4)[:, None].expand(2, 30), 7.0),
    ),
    "scatter and add": lambda x, i, j: (
        x.scatter_add(0, (i % 12)[:, None].expand(17, 30)[:12], x),
        torch.zeros_like(x).scatter_add(1, (j % 30).expand(12, 17), x[:, :17]),
    ),
    "scatter and reduce": lambda x, i, j: [
        torch.zeros_like(x).scatter_reduce(0, (i % 12)[:12, None].expand(12, 30), x, r, include_self=s)
        for r in ("sum", "amax", "amin", "mean")
        for s in (True, False)
    ],
    "product by scatter": lambda x, i, j: torch.ones_like(x).scatter_reduce(
        0, (i % 6)[:12, None].expand(12, 30), x, "prod"
    ),
    "slices set": lambda x, i, j: (
        x.slice_scatter(x[:3] * 2, 0, 4, 7),
        x.slice_scatter(x[:, :5], 1, 0, 10, 2),
        x.select_scatter(x[0] + 1, 0, 5),
    ),
    "masks that select": lambda x, i, j: torch.where((i[:12, None] > 0) & (j[None, :12] > 0).any(), x, -x),
    "an ellipsis": lambda x, i, j: (x[..., 3] + x[..., -1], x[None, ..., None][0, i]),
    "position found": lambda x, i, j: x.gather(1, x.argmax(1, keepdim=True)) - x.amax(1, keepdim=True) + x[:, :1],
    "sorted by indices": lambda x, i, j: x.gather(1, x.argsort(1)) * 2,
    "permutation undone": lambda x, i, j: (p := torch.arange(11, -1, -1, device=x.device), x[p][p] + x[p])[1],
    "positions by arange": lambda x, i, j: (
        x[torch.arange(0, 12, 3, device=x.device)],
        x[:, torch.arange(29, -1, -1, device=x.device)],
        x[torch.arange(-1, -13, -1, device=x.device)],
    ),
    "negative constants": lambda x, i, j: (x[_at(x, -2)], x[:, _at(x, 0, -1)], x[[-1, 0], [2, -3]]),
    "clamped": lambda x, i, j: x[(i + 5).clamp(0, 11)] + x[(i * 3).clamp(-12, 11)],
    "a table of bins": lambda x, i, j: torch.zeros(5, device=x.device, dtype=x.dtype).index_add(0, i % 5, x[0, :17]),
    "counts": lambda x, i, j: torch.zeros(12, device=x.device, dtype=torch.int32).index_add(
        0, i % 12, torch.ones_like(i, dtype=torch.int32)
    ),
    "masked by index": lambda x, i, j: torch.where(x > x[i[:1]], x, 0).sum(0),
    "nearest rows": lambda x, i, j: x[(x[:, None] - x[:4]).square().sum(-1).argmin(0)],
}.items():
    grad = name not in (
        "scatter and reduce",
        "product by scatter",
        "a mask of comparisons",
        "counts",
        "nearest rows",
        "negative constants",
    )
    table(
        f"rows and columns, {name}",
        function,
        X,
        ROWS,
        COLUMNS,
        grad=grad,
        dynamic=name not in ("negative constants", "permutation undone"),
    )

for name, function in {
    "two adjacent": lambda a, x, y: (a[x, y], a[:, x, y] if a.shape[1] > 3 else a, a[x, y, 1:3]),
    "two apart": lambda a, x, y: (a[x, :, y], a[:, x, :, y], a[0, x, :, y]),
    "broadcast": lambda a, x, y: (a[x[None], y[:, None]], a[x[None], :, y[:, None]], a[:, x[:, None], y[None]]),
    "with slices": lambda a, x, y: (a[x, 1:, y], a[1:, x, 2:, y], a[..., x, y], a[None, x, :, y][0]),
    "set": lambda a, x, y: (b := a.clone(), b.__setitem__((x, slice(None), y), 3.0), b * 2)[2],
    "set broadcast": lambda a, x, y: (
        b := a.clone(),
        b.__setitem__((slice(None), x[None], y[:, None]), torch.zeros(3, 2, 3, 6, device=a.device, dtype=a.dtype)),
        b,
    )[2],
    "set by numbers": lambda a, x, y: (b := a * 2, b.__setitem__((x, y, 0), b[x, y, 1] + 5), b)[2],
}.items():
    maker_x, maker_y = ints(3, low=0, high=3), ints(3 if "broadcast" not in name else 2, low=0, high=4)
    if name.startswith("set"):  # in any order: distinct places
        maker_x = lambda: torch.tensor([2, 0, 1])  # noqa: E731
        maker_y = (lambda: torch.tensor([1, 3])) if "broadcast" in name else (lambda: torch.tensor([1, 3, 2]))
    table(f"four dimensions, {name}", function, T5, maker_x, maker_y, exact=name == "two adjacent")

table(
    "embedding",
    lambda w, i: (F.embedding(i, w) * 2, F.embedding(i, w, padding_idx=3).sum(1)),
    normal(20, 16),
    ints(4, 9, low=0, high=20),
    grad=True,
)
table(
    "embeddings added",
    lambda w, p, i: F.layer_norm(F.embedding(i, w) + p[None, :9], (16,)),
    normal(20, 16),
    normal(12, 16),
    ints(4, 9, low=0, high=20),
    grad=True,
)
table(
    "embedding of halves",
    lambda w, i: F.embedding(i, w).float() * 2,
    normal(20, 16, dtype=torch.bfloat16),
    ints(4, 9, low=0, high=20),
    grad=True,
)
table(
    "bag of embeddings, sum", lambda w, i: F.embedding_bag(i, w, mode="sum"), normal(20, 16), ints(4, 9, low=0, high=20)
)
table(
    "bag of embeddings, mean and largest",
    lambda w, i: (F.embedding_bag(i, w, mode="mean"), F.embedding_bag(i, w, mode="max")),
    normal(20, 16),
    ints(4, 9, low=0, high=20),
)
table("one hot product", lambda w, i: F.one_hot(i, 20).to(w.dtype) @ w, normal(20, 16), ints(9, low=0, high=20))
table(
    "mask to a number", lambda x, m: (x.masked_fill(m, 2.0), torch.where(m, x, 0), x * ~m), X, bools(12, 30), grad=True
)
table("mask sets", lambda x, m: (y := x.clone(), y.__setitem__(m, 0.0), y + 1)[2], X, bools(12, 30))
table("mask scatter", lambda x, m: x.masked_scatter(m, x.flip(0)), X, bools(12, 30))
table("mask of rows sets", lambda x, m: (y := x * 2, y.__setitem__(m, -1.0), y)[2], X, bools(12))
table(
    "adding to repeated places",
    lambda x, i: x.index_put((i,), torch.ones_like(i, dtype=x.dtype), accumulate=True),
    normal(6),
    ints(200, low=-6, high=6),
    grad=True,
)
table(
    "adding halves",
    lambda x, i: (
        x.index_add(0, i, torch.ones(20, 4, dtype=x.dtype, device=x.device)),
        torch.zeros_like(x).scatter_add(0, i[:, None].expand(20, 4), torch.ones(20, 4, dtype=x.dtype, device=x.device)),
    ),
    normal(6, 4, dtype=torch.float16),
    ints(20, low=0, high=6),
)
table(
    "adding integers",
    lambda x, i: (x.index_add(0, i, torch.ones_like(i)), x.index_put((i,), torch.full_like(i, 3), accumulate=True)),
    ints(6),
    ints(50, low=0, high=6),
)
table(
    "adding float64",
    lambda x, i: x.index_add(0, i, torch.ones(50, dtype=x.dtype, device=x.device)),
    normal(6, dtype=torch.float64),
    ints(50, low=0, high=6),
)
table(
    "adding bools",
    lambda m, i: m.float().index_add(0, i, torch.ones(50, device=m.device)),
    bools(6),
    ints(50, low=0, high=6),
)
table("gather of integers", lambda x, i: (x.gather(1, i) + 1, x[i[0]]), ints(8, 9), ints(8, 4, low=0, high=8))
table("gather of bools", lambda m, i: (m.gather(1, i), ~m[i[:, 0]]), bools(9, 9), ints(8, 4, low=0, high=9))
table(
    "gather from an expanded tensor",
    lambda x, i: x.expand(4, 5, 10, 6).gather(3, i + 1),
    normal(1, 1, 10, 6),
    ints(4, 5, 10, 1, low=0, high=5),
    grad=True,
)
table("index of no dimension", lambda x, i: x.index_select(0, i) * 2, X, ints(low=0, high=12))
table("no indices", lambda x, i: (x[i] * 2, x.index_add(0, i, x[i])), X, ints(0))
table("single element", lambda x, i: (x[i] + 1, x.gather(0, i)), normal(1), ints(1, low=0, high=1))
table(
    "bilinear samples",
    lambda x, g: F.grid_sample(x, g, align_corners=False),
    normal(2, 3, 8, 9),
    like(normal(2, 5, 4, 2), lambda t: t * 0.6),
)
table(
    "nearest samples and borders",
    lambda x, g: [
        F.grid_sample(x, g, mode=m, padding_mode=p, align_corners=True)
        for m, p in (("nearest", "zeros"), ("bilinear", "border"), ("bilinear", "reflection"))
    ],
    normal(2, 3, 8, 9),
    like(normal(2, 5, 4, 2), lambda t: t * 0.6),
)
table(
    "paged rows", lambda pool, t: pool[t].flatten(1, 2).sum(1), normal(10, 4, 8), ints(3, 5, low=0, high=10), grad=True
)
table(
    "cache written at a position",
    lambda c, x, p: c.index_copy(1, p, x) * 2,
    normal(2, 16, 8),
    normal(2, 1, 8),
    ints(1, low=0, high=16),
)
table(
    "relative positions",
    lambda b: b[:, (torch.arange(7, device=b.device)[:, None] - torch.arange(7, device=b.device) + 6)],
    normal(4, 13),
    grad=True,
)
table(
    "shifted windows",
    lambda x: x.roll((-2, -2), (1, 2)).view(1, 2, 4, 2, 4, 3).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 3),
    normal(1, 8, 8, 3),
    grad=True,
)
table(
    "experts chosen",
    lambda x, w: (s := (x @ w).softmax(-1).topk(2, -1), s.values / s.values.sum(-1, keepdim=True), s.indices)[1:],
    normal(9, 16),
    normal(16, 6),
)
table("unpooled", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), normal(1, 2, 6, 6))
