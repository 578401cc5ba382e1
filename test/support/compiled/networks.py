"""Layers and small models, forward and backward: products, convolutions, pools, norms, losses, recurrences."""

import torch
import torch.nn.functional as F

from compiled.row import Table, bools, ints, like, normal, uniform

table = Table("networks", grad=True, tolerance=2e-4)
IMAGE, WIDE = normal(2, 4, 9, 11), normal(2, 4, 16, 16)
LAST = {"memory_format": torch.channels_last}

for name, function in {
    "relu": lambda x, w, b: F.relu(F.linear(x, w, b)),
    "gelu": lambda x, w, b: F.gelu(F.linear(x, w, b)) * 2,
    "silu, gated": lambda x, w, b: F.silu(F.linear(x, w, b)) * F.linear(x, w),
    "without bias": lambda x, w, b: torch.tanh(x @ w.t()),
    "addmm": lambda x, w, b: torch.addmm(b, x, w.t(), beta=0.5, alpha=2).sigmoid(),
    "with a residual": lambda x, w, b: (
        x + F.dropout(F.linear(x, w @ w.t()[:, :1].expand(24, 16) if w.shape[0] == 16 else w[:16, :16]), 0.0)
    ),
    "twice the same weight": lambda x, w, b: F.linear(F.linear(x, w, b), w.t()),
    "operands computed": lambda x, w, b: (x * 2 + 1) @ (w.t() * 0.5) - b.exp(),
    "slices of a product": lambda x, w, b: (y := F.linear(x, w, b), y[:, :8] * y[:, 8:16] + y[:, 16:])[1],
    "normalised": lambda x, w, b: F.layer_norm(F.linear(x, w, b), (24,), b, b),
    "softmax": lambda x, w, b: F.linear(x, w, b).softmax(-1),
    "cross entropy": lambda x, w, b: F.cross_entropy(F.linear(x, w, b), torch.arange(10, device=x.device)),
    "product of three": lambda x, w, b: torch.linalg.multi_dot([x, w.t(), w]),
    "vector": lambda x, w, b: (w @ x[0] + b, torch.mv(w, x[1]), x[0] @ w.t()),
    "batched": lambda x, w, b: torch.bmm(x.view(2, 5, 16), w.t().expand(2, 16, 24)).relu(),
    "baddbmm": lambda x, w, b: torch.baddbmm(b.expand(2, 5, 24), x.view(2, 5, 16), w.t().expand(2, 16, 24), alpha=0.5),
    "einsum": lambda x, w, b: torch.einsum("bi,oi->bo", x, w) + torch.einsum("bi,oi,o->bo", x, w, b),
    "bilinear": lambda x, w, b: F.bilinear(x, x, w[None].expand(3, 24, 16)[:, :16], b[:3]),
    "weight norm by hand": lambda x, w, b: F.linear(x, w / w.norm(dim=1, keepdim=True), b),
    "transposed inputs": lambda x, w, b: (x.t().contiguous().t() @ w.t(), x.t()[:, :5] @ x[:5]),
}.items():
    table(f"linear, {name}", function, normal(10, 16), normal(24, 16), normal(24))

for name, function in {
    "relu": lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)),
    "strides": lambda x, w, b: F.silu(F.conv2d(x, w, b, stride=2)),
    "dilation": lambda x, w, b: F.conv2d(x, w, b, dilation=2, padding=2) * 2,
    "batch norm in evaluation": lambda x, w, b: F.relu(
        F.batch_norm(F.conv2d(x, w, None), b.detach(), (b * b + 0.5).detach(), b, b)
    ),
    "group norm": lambda x, w, b: F.gelu(F.group_norm(F.conv2d(x, w, b), 2, b, b)),
    "groups": lambda x, w, b: F.conv2d(x, w[:, :2], b, groups=2),
    "depthwise": lambda x, w, b: F.conv2d(x, w[:4, :1], b[:4], groups=4, padding=1).sigmoid(),
    "transposed": lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2) + 1,
    "of a function": lambda x, w, b: F.conv2d(F.pad(x.tanh(), (1, 1, 1, 1)), w * 0.5, b),
    "a residual": lambda x, w, b: F.relu(x + F.conv2d(x, w[:4], b[:4], padding=1)),
    "pools": lambda x, w, b: F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2),
    "of two inputs": lambda x, w, b: F.conv2d(torch.cat([x, x * 2], 1)[:, 2:6], w, b),
    "1 x 1": lambda x, w, b: F.conv2d(x, w[:, :, :1, :1], b).relu(),
    "one dimension": lambda x, w, b: F.conv1d(x.flatten(2), w.flatten(2)[:, :, :3], b, padding=1).relu(),
}.items():
    table(f"convolution, {name}", function, IMAGE, normal(6, 4, 3, 3), normal(6), tolerance=5e-4)
table(
    "convolution, channels last",
    lambda x, w: F.relu(F.conv2d(x, w)) * 2,
    like(IMAGE, lambda t: t.to(**LAST)),
    normal(6, 4, 3, 3),
    layout=False,
)
table(
    "convolution of three dimensions",
    lambda x, w: F.conv3d(x, w, padding=1).relu(),
    normal(1, 2, 5, 6, 7),
    normal(3, 2, 3, 3, 3),
    tolerance=5e-4,
)

for name, function in {
    "largest of 3": lambda x: F.max_pool2d(x, 3, 2, 1) * 2,
    "largest, with indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0] + F.max_pool2d(x, 2),
    "largest, ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "largest, dilated": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "mean of 2": lambda x: F.avg_pool2d(x, 2) + 1,
    "mean, padded": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean without padding counted": lambda x: (
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False) * F.avg_pool2d(x, 3, 2, 1, divisor_override=5)
    ),
    "mean, ceil": lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
    "mean of a large window": lambda x: F.avg_pool2d(x, 9, 3, 4),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive mean to 1": lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1) * 2,
    "adaptive largest": lambda x: F.adaptive_max_pool2d(x, (4, 3)),
    "one dimension": lambda x: (F.max_pool1d(x.flatten(2), 3, 2), F.avg_pool1d(x.flatten(2), 4)),
    "l2": lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 3),
    "nearest, larger": lambda x: F.interpolate(x, scale_factor=2) * 2,
    "nearest, smaller": lambda x: F.interpolate(x, size=(5, 7)),
    "nearest exact": lambda x: F.interpolate(x, size=(13, 19), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, size=(13, 7), mode="bilinear"),
    "bilinear, corners": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, size=(13, 17), mode="bicubic"),
    "linear": lambda x: F.interpolate(x.flatten(2), size=50, mode="linear"),
    "area": lambda x: F.interpolate(x, size=(3, 4), mode="area"),
    "local response": lambda x: F.local_response_norm(x, 3),
}.items():
    table(f"windows, {name}", function, IMAGE)
    if name in ("largest of 3", "mean of 2", "bilinear", "nearest, larger"):
        table(f"windows, {name}, channels last", function, like(IMAGE, lambda t: t.to(**LAST)), grad=False)
table(
    "windows, antialiased",
    lambda x: F.interpolate(x, size=(4, 5), mode="bilinear", antialias=True),
    IMAGE,
)
table(
    "windows, three dimensions",
    lambda x: (F.max_pool3d(x, 2), F.avg_pool3d(x, 2, 1), F.adaptive_avg_pool3d(x, 2)),
    normal(1, 2, 6, 5, 4),
)
table(
    "windows of halves",
    lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 3, 1, 1)),
    normal(2, 4, 8, 8, dtype=torch.float16),
    tolerance=4e-3,
)
table("largest of nan", lambda x: F.max_pool2d(torch.where(x > 1.5, float("nan"), x), 2), IMAGE, exact=True, grad=False)

for name, function in {
    "layer norm": lambda x, w: F.layer_norm(x, (16,), w, w) * 2,
    "layer norm of two dimensions": lambda x, w: F.layer_norm(x, (6, 16)),
    "layer norm, then gelu": lambda x, w: F.gelu(F.layer_norm(x + 1, (16,), w)),
    "rms norm": lambda x, w: F.rms_norm(x, (16,), w) + x,
    "rms norm by hand": lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w,
    "batch norm in training": lambda x, w: F.batch_norm(x.transpose(1, 2), None, None, w, w, training=True),
    "group norm": lambda x, w: F.group_norm(x.transpose(1, 2), 4, w, w).relu(),
    "instance norm": lambda x, w: F.instance_norm(x, eps=1e-3),
    "norm of a sum": lambda x, w: F.layer_norm(x + x.flip(0), (16,)) + F.layer_norm(x * 2, (16,)),
    "scale and shift": lambda x, w: F.layer_norm(x, (16,)) * (1 + w) + w,
    "qk norm": lambda x, w: F.normalize(x, dim=-1) @ F.normalize(x, dim=-1).mT,
}.items():
    # The shape function of batch norms keeps a permuted layout, eager mode does not.
    layout = not name.startswith("batch")
    table(name, function, normal(5, 6, 16), normal(16), tolerance=5e-4, layout=layout)
table(
    "batch norm with running statistics",
    lambda x, m, v, w: F.batch_norm(x, m, v, w, w, training=True) * 2,
    normal(8, 5),
    normal(5),
    uniform(5),
    normal(5),
    grad=False,
)
table(
    "batch norm of images, trained",
    lambda x, m, v: F.relu(F.batch_norm(x, m, v, training=True)),
    IMAGE,
    normal(4),
    uniform(4),
    grad=False,
)

for name, function in {
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "attention, causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2,
    "attention, masked": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.ones(9, 9, dtype=torch.bool, device=q.device).tril()
    ),
    "attention, biased": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, torch.arange(9.0, device=q.device).expand(9, 9).to(q.dtype)
    ),
    "attention by hand": lambda q, k, v: (q @ k.mT * 0.25).softmax(-1) @ v,
    "attention by hand, causal": lambda q, k, v: (
        (q @ k.mT * 0.25).masked_fill(torch.ones(9, 9, device=q.device).triu(1) > 0, -torch.inf).softmax(-1) @ v
    ),
    "attention of views": lambda q, k, v: (
        F.scaled_dot_product_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k * 2, v)
        .transpose(1, 2)
        .reshape(2, 9, 48)
    ),
    "linear attention": lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).mT @ v),
    "cosine attention": lambda q, k, v: (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 10).softmax(-1) @ v,
    "rotary": lambda q, k, v: (
        c := torch.cos(torch.arange(9, device=q.device)[:, None] / 3.0),
        q * c + torch.cat([-q[..., 8:], q[..., :8]], -1) * (1 - c * c),
    )[1],
}.items():
    table(name, function, normal(2, 3, 9, 16), normal(2, 3, 9, 16), normal(2, 3, 9, 16), tolerance=5e-4)

for name, function in {
    "cross entropy": lambda x, t: F.cross_entropy(x, t),
    "cross entropy, smoothed": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "cross entropy, some ignored": lambda x, t: F.cross_entropy(x, torch.where(t == 3, -100, t)),
    "cross entropy, weighted": lambda x, t: F.cross_entropy(
        x, t, weight=torch.arange(1.0, 14.0, device=x.device).to(x.dtype)
    ),
    "cross entropy of distributions": lambda x, t: F.cross_entropy(x, x.detach().flip(0).softmax(1)),
    "cross entropy of each": lambda x, t: F.cross_entropy(x * 0.5, t, reduction="none"),
    "logits": lambda x, t: F.binary_cross_entropy_with_logits(x, (x > 0.3).to(x.dtype).detach()),
    "negative log likelihood": lambda x, t: F.nll_loss(x.log_softmax(1), t, reduction="sum"),
    "multilabel soft margin": lambda x, t: F.multilabel_soft_margin_loss(x, (x > 0).to(x.dtype).detach()),
    "poisson": lambda x, t: F.poisson_nll_loss(x, x.detach().abs()),
    "gaussian": lambda x, t: ((x - x.detach() * 0.5).square() / (v := x.detach().abs() + 0.1) + v.log()).mean() / 2,
    "hinge of embeddings": lambda x, t: F.hinge_embedding_loss(x, torch.where(x.detach() > 0, 1, -1)),
    "soft margin": lambda x, t: F.soft_margin_loss(x, torch.sign(x.detach())),
    "triplets": lambda x, t: F.triplet_margin_loss(x, x.flip(0) * 0.5, x.roll(1, 0)),
    "cosine": lambda x, t: F.cosine_embedding_loss(x, x.detach().flip(0), torch.where(t > 5, 1, -1)),
    "ranking": lambda x, t: F.margin_ranking_loss(x[:, 0], x[:, 1], torch.where(t > 5, 1, -1)),
    "focal by hand": lambda x, t: (-((1 - (p := x.softmax(1).gather(1, t[:, None]))) ** 2) * p.log()).mean(),
    "contrastive": lambda x, t: F.cross_entropy(
        F.normalize(x, dim=1) @ F.normalize(x * 2 + 1, dim=1).t() / 0.1, torch.arange(11, device=x.device)
    ),
    "z loss": lambda x, t: F.cross_entropy(x, t) + 1e-2 * x.logsumexp(1).square().mean(),
}.items():
    table(f"loss, {name}", function, normal(11, 13), ints(11, low=0, high=13))
table(
    "loss, margins",
    lambda x, t: F.multi_margin_loss(x, t),
    normal(11, 13),
    ints(11, low=0, high=13),
)


@table.add(normal(2, 7, 8), normal(8, 8), normal(8, 8))
def a_recurrence(x, w, u):
    h = x.new_zeros(2, 8)
    outputs = []
    for t in range(7):
        h = torch.tanh(x[:, t] @ w + h @ u)
        outputs.append(h)
    return torch.stack(outputs, 1)


@table.add(normal(2, 7, 8), normal(8, 24), normal(8, 24))
def a_gated_recurrence(x, w, u):
    h = x.new_zeros(2, 8)
    for t in range(7):
        a, b = (x[:, t] @ w).chunk(3, 1), (h @ u).chunk(3, 1)
        r, z = (a[0] + b[0]).sigmoid(), (a[1] + b[1]).sigmoid()
        h = (1 - z) * torch.tanh(a[2] + r * b[2]) + z * h
    return h


@table.add(normal(2, 9, 4), normal(2, 9, 4))
def a_state_space_scan(x, a):
    decay = F.softplus(a).neg().exp()
    h, out = torch.zeros_like(x[:, 0]), []
    for t in range(9):
        h = decay[:, t] * h + x[:, t]
        out.append(h)
    return torch.stack(out, 1) * x.sigmoid()


@table.add(normal(2, 5, 16), normal(32, 16), normal(32, 16), normal(16, 32))
def a_gated_feedforward(x, gate, up, down):
    return x + (F.silu(x @ gate.t()) * (x @ up.t())) @ down.t()


@table.add(normal(6, 16), normal(4, 16), normal(4, 16, 8))
def a_mixture_of_experts(x, router, experts):
    p = (x @ router.t()).softmax(-1)
    return torch.einsum("be,eio,bi->bo", p, experts, x)


@table.add(normal(4, 3, 8, 8), normal(12, 3, 4, 4), normal(12))
def patches_to_tokens(x, w, b):
    tokens = F.conv2d(x, w, b, stride=4).flatten(2).transpose(1, 2)
    return F.layer_norm(tokens + tokens.mean(1, keepdim=True), (12,))


@table.add(normal(2, 4, 8, 8), normal(4, 4, 3, 3))
def down_and_up(x, w):
    low = F.relu(F.conv2d(F.avg_pool2d(x, 2), w, padding=1))
    return torch.cat([x, F.interpolate(low, scale_factor=2)], 1)


@table.add(normal(2, 6, 8), normal(2, 6, 8), bools(2, 6))
def masked_means(x, y, m):
    weights = m[..., None].to(x.dtype)
    return ((x - y).square() * weights).sum((1, 2)) / (weights.sum((1, 2)) + 1)


@table.add(normal(7, 5), normal(5, 5))
def a_quadratic_form(x, a):
    return ((x @ (a + a.t())) * x).sum(1)


@table.add(normal(9, 4), grad=True)
def a_gradient_that_meets_itself(x):
    y = x * x
    return y * y.detach() + y.sum(0) * x


table(
    "checkpointed",
    lambda x, w: torch.utils.checkpoint.checkpoint(lambda x: F.gelu(x @ w) @ w.t(), x, use_reentrant=False),
    normal(5, 8),
    normal(8, 12),
    grad=True,
)
table(
    "halves, a layer",
    lambda x, w, b: F.gelu(F.linear(x, w, b)),
    normal(8, 16, dtype=torch.bfloat16),
    normal(24, 16, dtype=torch.bfloat16),
    normal(24, dtype=torch.bfloat16),
    tolerance=5e-2,
)
table(
    "halves, a convolution",
    lambda x, w: F.relu(F.conv2d(x, w)),
    normal(2, 4, 9, 9, dtype=torch.float16),
    normal(6, 4, 3, 3, dtype=torch.float16),
    tolerance=2e-2,
)
