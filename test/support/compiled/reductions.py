"""Sums, extremes and their indices, variances, softmax, scans, sorts."""

import torch
import torch.nn.functional as F

from compiled.row import INF, NAN, Table, bools, ints, like, normal, uniform, values

table = Table("reductions", tolerance=1e-4)
X3, X2 = normal(5, 12, 33), normal(24, 70)

for name, function in {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "var": torch.var,
    "std": torch.std,
    "logsumexp": torch.logsumexp,
    "l2 norm": lambda x, d: torch.linalg.vector_norm(x, 2, d),
    "any": lambda x, d: (x > 2).any(d),
    "l1 norm": lambda x, d: torch.linalg.vector_norm(x, 1, d),
    "largest norm": lambda x, d: torch.linalg.vector_norm(x, INF, d),
    "all": lambda x, d: (x > -2).all(d),
    "count": lambda x, d: torch.count_nonzero(x > 0, d),
    "nansum": torch.nansum,
    "nanmean": torch.nanmean,
}.items():
    table(
        f"{name} over the last",
        lambda x, f=function: f(x, -1),
        X3,
        grad=name in ("sum", "var", "logsumexp", "l2 norm", "amax"),
    )
    table(f"{name} over the first", lambda x, f=function: f(x * 2, 0), X3, dynamic=False)
    table(
        f"{name} over the middle",
        lambda x, f=function: f(x, 1) if f is not torch.std else f(x, 1, keepdim=True),
        X3,
        dynamic=False,
    )
    if name != "count":
        table(f"{name} over two, apart", lambda x, f=function: f(x + 1, (0, 2)), X3, dynamic=False)
    table(f"{name} over all", lambda x, f=function: f(x, (0, 1, 2)), X3, grad=name in ("mean", "std"))

for name, function in {
    "products": lambda x: (x.prod(0), x.prod(1), (x[:4, :5] * 2).prod()),
    "indices": lambda x: (x.argmax(0), x.argmin(1), x.argmax(), x.t().argmin(), (x * 2).argmax(1, keepdim=True)),
    "values and indices": lambda x: (*x.max(0), *x.min(1), *(x + 1).max(1)),
    "aminmax": lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=1)),
    "indices of a transposed copy": lambda x: ((x.t() * 2).argmax(0), (x.t() + 1).argmin(1)),
    "median": lambda x: (x.median(), *x.median(1)),
    "mode": lambda x: x.round().mode(1).values,
    "quantile": lambda x: (torch.quantile(x, 0.3), torch.quantile(x, 0.9, dim=1)),
    "kthvalue": lambda x: x.kthvalue(3, 1),
    "variance and mean": lambda x: (*torch.var_mean(x, 1), *torch.std_mean(x, 0, correction=0)),
    "variance of all": lambda x: (x.var(), x.var(unbiased=False), (x + 100).var(0)),
    "sum of a sum": lambda x: (x.sum(1) + 3).sum(),
    "sums of two kinds": lambda x: (x.sum(0), x.sum(1), x.sum()),
    "sum, then broadcast": lambda x: x / x.sum(1, keepdim=True) + x.mean(0),
    "sum of a broadcast": lambda x: (x[:, None] * x[None, :8]).sum(-1),
    "sum where": lambda x: torch.where(x > 0, x, 0).sum(1) / (x > 0).sum(1),
    "norms": lambda x: (x.norm(), x.norm(dim=0), x.norm(p=1, dim=1), x.norm(p=3, dim=1), x.norm(p=0, dim=1)),
    "standard scores": lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
    "covariance": lambda x: (c := x - x.mean(1, keepdim=True), c @ c.t() / 69)[1],
    "softmax of both": lambda x: (x.softmax(0), x.softmax(1), x.softmax(-1) * 2, F.softmin(x, 1)),
    "log softmax": lambda x: (
        x.log_softmax(0),
        x.log_softmax(1),
        F.nll_loss(x.log_softmax(1), torch.arange(24, device=x.device)),
    ),
    "softmax with a scale": lambda x: (
        (x * 0.125).softmax(-1) @ x[:70, :5].expand(70, 5) if x.shape[0] >= 70 else (x * 0.125).softmax(-1)
    ),
    "softmax by hand": lambda x: (e := (x - x.amax(1, keepdim=True)).exp()) / e.sum(1, keepdim=True),
    "softmax of softmax": lambda x: x.softmax(1).softmax(0),
    "running sums": lambda x: (x.cumsum(0), x.cumsum(1), (x * 2).cumsum(-1) + 1),
    "running products": lambda x: (x.cumprod(0), x[:, :9].cumprod(1)),
    "running extremes": lambda x: (*x.cummax(0), *x.cummin(1)),
    "running logsumexp": lambda x: x.logcumsumexp(1),
    "differences": lambda x: (x.diff(), x.diff(dim=0), x.diff(n=2)),
    "trapezoid": lambda x: (torch.trapezoid(x), torch.cumulative_trapezoid(x, dim=0)),
    "sorted": lambda x: (*x.sort(1), *x.sort(0, descending=True), x.argsort(1)),
    "top 5": lambda x: (*x.topk(5, 1), *x.topk(3, 0, largest=False)),
    "sorted, then more": lambda x: (x * 2).sort(1).values.cumsum(1) / x.shape[1],
    "unique neighbours": lambda x: (x.round()[:, 1:] != x.round()[:, :-1]).sum(1) + 1,
    "histogram": lambda x: torch.histc(x, 10, -2, 2),
    "cross entropy of rows": lambda x: F.cross_entropy(x, torch.arange(24, device=x.device), reduction="none"),
    "smooth l1 and huber": lambda x: (
        F.smooth_l1_loss(x, x * 0.3),
        F.huber_loss(x, x * 0.3),
        F.mse_loss(x, x * 2),
        F.l1_loss(x, x.flip(0)),
    ),
    "kl divergence": lambda x: F.kl_div(x.log_softmax(1), x.flip(0).softmax(1), reduction="batchmean"),
    "distances of pairs": lambda x: F.pairwise_distance(x, x.flip(0)),
    "renorm": lambda x: x.renorm(2, 0, 3.0),
    "trace and diagonal": lambda x: (x[:, :24].trace(), x.diagonal().sum(), x.diagonal(2) * 2),
    "a sum and its parts": lambda x: (y := x + 1, s := y.sum(1), s + 3, (s + 3).sum()),
    "one pass for two extremes": lambda x: x.amax(1) - x.amin(1) + x.sum(1) / 70,
    "largest of a window": lambda x: x.unfold(1, 5, 3).amax(-1),
    "argmax of softmax": lambda x: x.softmax(1).argmax(1),
    "mean of a comparison": lambda x: (x > 0).float().mean(1),
}.items():
    grads = (
        "variance of all",
        "sum, then broadcast",
        "standard scores",
        "softmax of both",
        "log softmax",
        "norms",
        "running sums",
        "softmax by hand",
        "smooth l1 and huber",
        "sums of two kinds",
        "kl divergence",
        "top 5",
    )
    table(name, function, X2, grad=name in grads, dynamic=name not in ("histogram", "softmax with a scale"))

for rows, columns in (
    (1, 1),
    (1, 4097),
    (4097, 1),
    (3, 1025),
    (257, 8),
    (40, 2048),
    (2, 20000),
    (1000, 65),
    (65, 1000),
):
    table(
        f"{rows} x {columns}",
        lambda x: (x.sum(1), x.sum(0), x.amax(1), x.var(0, unbiased=False), x.softmax(1), x.argmax(0), x.sum()),
        normal(rows, columns),
        dynamic=rows in (3, 257),
    )
    table(
        f"{rows} x {columns}, transposed",
        lambda x: (x.sum(1), x.sum(0), x.softmax(0), x.argmin(1)),
        like(normal(columns, rows), lambda t: t.t()),
        dynamic=False,
    )
    table(
        f"{rows} x {columns} of halves",
        lambda x: (x.float().sum(1), x.amax(0), x.softmax(1), x.mean(1)),
        normal(rows, columns, dtype=torch.bfloat16),
        dynamic=False,
        tolerance=2e-2,
    )

EXACT = {"exact": True, "dynamic": False}
table(
    "extremes of nan",
    lambda x: (x.amax(), x.amin(1), x.argmax(1), x.argmin(0), *x.max(1), *x.min(0)),
    like(normal(6, 9), lambda t: t.index_put_((torch.tensor([1, 3]), torch.tensor([2, 8])), torch.tensor(NAN))),
    **EXACT,
)
table(
    "extremes of infinities",
    lambda x: (x.amax(), x.amin(), x.argmax(), x.argmin(), x.sum(), x.max(0)[1]),
    values(-INF, 0.0, INF, INF, -INF),
    **EXACT,
)
table(
    "only infinities",
    lambda x: (x.argmax(), x.argmin(), x.amax(), x.logsumexp(0), x.softmax(0)),
    values(-INF, -INF, -INF),
    **EXACT,
)
table(
    "ties",
    lambda x: (x.argmax(1), x.argmin(1), x.argmax(0), x.argmax(), x.argmin()),
    ints(30, 40, low=0, high=3),
    exact=True,
)
table("ties of reals", lambda x: ((x.round() * 1).argmax(1), x.round().argmin(0)), normal(30, 40), exact=True)
table(
    "all the same",
    lambda x: (x.argmax(1), x.argmin(0), (x * 2).argmax()),
    like(normal(1), lambda t: torch.ones(16, 20)),
    exact=True,
)
table(
    "a row of minus infinity in softmax",
    lambda x: x.masked_fill(torch.arange(9, device=x.device)[:, None] == 3, -INF).softmax(1),
    normal(9, 33),
    **EXACT,
)
table(
    "masked softmax",
    lambda x, m: x.masked_fill(m, -INF).softmax(-1).nan_to_num(),
    normal(9, 33),
    bools(9, 33),
    grad=True,
)
table("large numbers in logsumexp", lambda x: ((x * 300).logsumexp(1), (x * 300).softmax(1)), normal(9, 33))
table(
    "variance far from 0",
    lambda x: ((x + 1000).var(1), (x + 1000).double().var(1).float()),
    normal(9, 333),
    exact=True,
    tolerance=2e-3,
)
table("no elements to add", lambda x: (x.sum(1), x.prod(1), x.any(1), x.all(1), x.sum()), normal(3, 0))
table("mean of nothing", lambda x: (x.mean(1), x.sum(0)), normal(3, 0))
table("one element", lambda x: (x.sum(), x.amax(0), x.argmax(), x.softmax(0), x.std(correction=0)), normal(1))
table("no dimension", lambda x: (x.sum(), x.amax(), x.argmax(), x.softmax(0), x.mean()), normal())
table(
    "dimensions of 1",
    lambda x: (x.sum(-1), x.amax(1, keepdim=True), x.var(0, correction=0), x.sum((0, 2))),
    normal(8, 1, 1),
)
table(
    "expanded input",
    lambda x: (x.sum(0), x.sum(1), x.amax((0, 1))),
    like(normal(1, 9, 20), lambda t: t.expand(4, 9, 20)),
)
table("a product of two expanded", lambda x, y: (x * y).sum((0, 1)), normal(2, 19, 25), normal(2, 1, 25), grad=True)
table("every other element", lambda x: (x[:, ::2].sum(1), x[::3].amax(0), x[1:, 1:].mean()), X2)
table(
    "channels last",
    lambda x: (x.sum((2, 3)), x.mean((0, 2, 3)), x.amax(1), x.softmax(1)),
    like(normal(2, 8, 5, 7), lambda t: t.to(memory_format=torch.channels_last)),
)
table(
    "four dimensions",
    lambda x: (x.sum((1, 3)), x.amax((0, 2)), x.var((2, 3)), x.mean((0, 1, 2, 3)), x.sum((0, 3))),
    normal(3, 4, 5, 6),
    grad=True,
)
table(
    "sum of products", lambda x, y: ((x * y).sum(-1), torch.einsum("ij,ij->i", x, y), (x * y).sum()), X2, X2, grad=True
)
table(
    "dot and outer",
    lambda x, y: (torch.dot(x, y), torch.outer(x, y), torch.vdot(x, y)),
    normal(70),
    normal(70),
    grad=True,
)
table("a long sum", lambda x: (x.sum(), x.abs().mean(), x.amax(), x.argmax()), normal(300000))
table("a long sum of integers", lambda x: (x.sum(), x.amax(), x.argmax(), (x > 3).sum()), ints(300001), exact=True)
table("a long variance", lambda x: (x.var(), x.std()), uniform(150000))
table("a long column", lambda x: (x.sum(0), x.amax(0), x.var(0)), normal(30000, 3))
table("a long row, softmax", lambda x: (x.softmax(1), x.log_softmax(1)), normal(2, 50257), dynamic=False)
table(
    "product of positive numbers",
    lambda x: (x.prod(1), x.log().sum(1).exp()),
    uniform(8, 30, low=0.8, high=1.25),
    grad=True,
)
table(
    "bincount with weights",
    lambda i, w: torch.zeros(10, device=w.device, dtype=w.dtype).scatter_add(0, i, w),
    ints(60, low=0, high=10),
    normal(60),
)
table("distances of all pairs", lambda x: torch.cdist(x, x[:7] + 1), X2)
table("entropy", lambda x: -(p := x.softmax(-1)) * p.log(), X2, grad=True)
table("gumbel-like", lambda x: torch.log(-torch.log(x)), uniform(9, 9, low=0.01, high=0.99))
