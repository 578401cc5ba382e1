"""Views, slices, concatenation, padding, repetition: what is read where, and what strides results have."""

import torch
import torch.nn.functional as F

from compiled.row import Table, bools, ints, like, normal

table = Table("views")
X, Y, Z = normal(8, 30), normal(8, 30), normal(3, 8, 10)

for name, function in {
    "view": lambda x: (x.view(2, 4, 30) * 2, x.view(-1) + 1, x.view(8, 5, 6).sum(1)),
    "reshape after transpose": lambda x: (
        x.t().reshape(-1) * 2,
        x.t().reshape(5, 6, 8) + 1,
        (x + 1).t().reshape(10, 24),
    ),
    "unflatten and flatten": lambda x: (x.unflatten(1, (5, 6)).permute(1, 0, 2).flatten(1) * 2, x.flatten() - 1),
    "squeeze and unsqueeze": lambda x: (
        x[:, None].squeeze(1) * 2,
        x.unsqueeze(0) + x.unsqueeze(0),
        x[None, :, None].squeeze(),
    ),
    "slices": lambda x: (x[2:5] + 1, x[:, 3:-4] * 2, x[::3, 1::2], x[-3:, :7] - x[:3, -7:], x[5:2] + 1),
    "slices past the end": lambda x: (x[4:100] + 1, x[-100:3] * 2, x[:, 40:] + 1, x[100:] * 2),
    "selections": lambda x: (x[0] + x[-1], x[:, 3] * 2, x[2, 4] + 1, x.select(1, -2), x[1][2:4]),
    "narrow and chunk": lambda x: (x.narrow(1, 5, 7) * 2, *[c * k for k, c in enumerate(x.chunk(4, 1))]),
    "split in unequal parts": lambda x: [t + 1 for t in (x * 2).split([3, 7, 20], 1)],
    "split and swap": lambda x: torch.cat(x.split(15, 1)[::-1], 1),
    "unbind": lambda x: sum(t * k for k, t in enumerate(x.unbind(0))),
    "transposes": lambda x: (x.t() + 1, (x * 2).t(), x.t().contiguous() * 3, x.mT @ x),
    "flips": lambda x: (x.flip(0) * 2, x.flip(1), x.flip(0, 1) + x, x.fliplr() - x.flipud()),
    "rolls": lambda x: (x.roll(1, 0), x.roll(-3, 1) + x, x.roll((2, 5), (0, 1)), x.roll(7) * 2),
    "rotated": lambda x: (x.rot90(), x.rot90(2) + x, x.rot90(-1) * 2),
    "repetition": lambda x: (x.repeat(2, 3), x.repeat_interleave(3, 1), x.tile(2) + 1, x[:, None].expand(8, 4, 30) * 2),
    "concatenated rows": lambda x: (torch.cat([x, x * 2, x[:3]]), torch.cat([x[:, :1], x, x[:, -1:]], 1)),
    "concatenated with more": lambda x: torch.cat([x.exp(), x.t()[:8, :8], x.sum(1, keepdim=True)], 1) * 2,
    "concatenated and reduced": lambda x: torch.cat([x, x + 1], 1).sum(1),
    "concatenated along a new axis": lambda x: (
        torch.stack([x, x * 2, -x], 1),
        torch.stack([x.sum(1), x[:, 0]]),
        torch.hstack([x, x]),
    ),
    "a view of a concatenation": lambda x: torch.cat([x, x * 2])[3:12, ::2] + 1,
    "a concatenation that lives on": lambda x: (y := torch.cat([x, x * 3], 1), y * 2, x + 1),
    "constant padding": lambda x: (
        F.pad(x, (1, 2)),
        F.pad(x, (0, 0, 2, 1), value=3.5),
        F.pad(x, (-2, 1)),
        F.pad(x, (2, -3, 1, -1)) * 2,
    ),
    "reflected, replicated and circular padding": lambda x: [
        F.pad(x[None], (3, 2), mode=m) for m in ("reflect", "replicate", "circular")
    ],
    "padding, then a sum": lambda x: F.pad(x * 2, (5, 6)).sum(1),
    "padding, then softmax": lambda x: F.pad(x, (0, 1)).softmax(-1),
    "padding of a function": lambda x: F.pad(F.gelu(x), (1, 0)) * 2,
    "triangles": lambda x: (x.tril(), x.triu(2), x.tril(-1) + x.triu(1), (x * 2).tril(3)),
    "diagonals": lambda x: (
        x.diagonal() * 2,
        x.diagonal(3),
        torch.diag(x[0]),
        torch.diag_embed(x[:, :5]),
        x.diagonal_scatter(x[0, :8], 1),
    ),
    "windows": lambda x: (x.unfold(1, 4, 3) * 2, x.unfold(0, 3, 1).sum(-1), x.unfold(1, 2, 2)),
    "strided": lambda x: (
        x.as_strided((4, 5), (30, 3), 2) * 2,
        torch.as_strided(x, (6, 6), (1, 2)) + 1,
        (x + 1).as_strided((3,), (7,)),
    ),
    "moved axes": lambda x: (
        x.view(2, 4, 30).movedim(0, 2) * 2,
        x.view(2, 4, 30).transpose(0, 2),
        x.view(4, 2, 5, 6).permute(3, 1, 0, 2) + 1,
    ),
    "cloned to another layout": lambda x: (
        x.view(2, 4, 5, 6).contiguous(memory_format=torch.channels_last) * 2,
        x.t().clone(),
        x.t().clone(memory_format=torch.contiguous_format),
    ),
    "like": lambda x: (
        torch.zeros_like(x) + 1,
        torch.full_like(x, 3),
        torch.ones_like(x.t()) * x.t(),
        x.new_zeros(3, 4) + 2,
        x.new_full((2,), 7),
    ),
    "factories": lambda x: (
        x + torch.eye(8, 30, device=x.device),
        torch.ones(8, 1, device=x.device) * x,
        torch.full((30,), 0.5, device=x.device) + x,
    ),
    "pixels shuffled": lambda x: (
        F.pixel_shuffle(x.view(1, 8, 5, 6), 2) * 2,
        F.pixel_unshuffle(x.view(1, 2, 12, 10), 2),
    ),
    "even and odd": lambda x: torch.stack([x[..., ::2] + x[..., 1::2], x[..., ::2] - x[..., 1::2]], -1).flatten(-2),
    "patches": lambda x: (
        F.unfold(x.view(2, 2, 6, 10), 3, padding=1, stride=2),
        F.fold(x.view(1, 12, 20)[:, :, :12], (4, 5), 2),
    ),
    "heads": lambda x: (q := x.view(2, 4, 3, 2, 5).permute(2, 0, 3, 1, 4), q[0] * q[1] + q[2]),
    "a view of a view of a sum": lambda x: (x + 1).view(4, 60)[1:3].view(2, 2, 30)[:, 1].t() * 2,
    "broadcast_to": lambda x: (x[:1].broadcast_to(8, 30) * x, torch.broadcast_tensors(x[:, :1], x[:1])[0] + 1),
    "views as results": lambda x: (x.t(), x[2:], x.view(4, 60), x + 1),
    "views of an intermediate as results": lambda x: (y := x * 2, y.t(), y[1:], y.view(-1)),
    "the input itself": lambda x: (x, x + 1, x),
    "the same result twice": lambda x: (y := x * 2, y, y + 1),
    "swapped halves of a sum": lambda x: (y := x + 1, torch.cat([y[4:], y[:4]]) * y)[1],
    "tensor_split": lambda x: [t * 2 for t in x.tensor_split((2, 5))],
    "vander and cartesian": lambda x: (torch.vander(x[0, :5], 4), torch.cartesian_prod(x[0, :3], x[1, :4])),
    "nothing left": lambda x: (x[3:3] * 2, torch.cat([x[:0], x]), x[:, 5:5].sum(1)),
}.items():
    no_gradient = (
        "like",
        "factories",
        "views as results",
        "the input itself",
        "slices",
        "nothing left",
        "strided",
        "patches",
        "heads",
    )
    table(name, function, X, grad=name not in no_gradient)

table("transposed addition", lambda x, y: (x.t() + y, x + y.t()), normal(30, 8), normal(8, 30), grad=True)
table(
    "squares transposed",
    lambda x, y: (x.t() + y, (x * 2).t().contiguous() - y, x.t() * x),
    normal(65, 65),
    normal(65, 65),
)
table(
    "batches transposed",
    lambda x, y: (x.mT + y, x.permute(2, 1, 0) * 2, (x * 3).permute(1, 0, 2).contiguous()),
    Z,
    normal(3, 10, 8),
)
table(
    "concatenated from three inputs",
    lambda x, y, z: torch.cat([x, y * 2, z.view(24, 10)[:8].repeat(1, 3)], 1),
    X,
    Y,
    Z,
    grad=True,
)
table(
    "concatenated dtypes",
    lambda x, y, i: (torch.cat([x, y]), torch.cat([x, i])),
    X,
    normal(3, 30, dtype=torch.float16),
    ints(2, 30),
)
table(
    "concatenated bytes",
    lambda x: torch.cat([x.new_zeros(1).expand(3, 1), x], -1),
    ints(3, 255, low=0, high=256, dtype=torch.uint8),
)
table("concatenated with empty", lambda x, y: (torch.cat([x, y]), torch.cat([y, x, y, x])), X, normal(0))
table("concatenated bools", lambda x, y: torch.cat([x, y & x, x.logical_not()], 1), bools(5, 9), bools(5, 9))
table(
    "concatenated channels last",
    lambda x: torch.cat([x, x * 2], 1),
    like(normal(2, 4, 5, 6), lambda t: t.to(memory_format=torch.channels_last)),
)
table("thirty inputs concatenated", lambda *xs: torch.cat(xs, 1) * 2, *[normal(4, 3)] * 30, dynamic=False)
table("thirty inputs added", lambda *xs: sum(xs), *[normal(4, 33)] * 30, dynamic=False)
table("many results", lambda x: [x * k for k in range(30)], normal(4, 33), dynamic=False)
table("padding of bools", lambda m: (F.pad(m, (1, 1)) | True, F.pad(m, (1, 1), value=True)), bools(9), exact=True)
table("padding of integers", lambda i: (F.pad(i, (2, 3), value=7) * 2, F.pad(i, (1, 0)).cumsum(1)), ints(4, 9))
table("padding of three dimensions", lambda x: F.pad(x, (1, 2, 3, 4, 5, 6), value=-1.0), normal(2, 4, 4, 4), grad=True)
table(
    "images padded",
    lambda x: [F.pad(x, (2, 1, 1, 2), mode=m) for m in ("reflect", "replicate", "circular")],
    normal(2, 3, 5, 6),
    grad=True,
)
table("a transposed empty tensor", lambda x: (x.t() + 1, x.sum(0)), normal(0, 5))
table(
    "six dimensions",
    lambda x: (x.permute(5, 0, 3, 1, 4, 2) * 2, x.flatten(2, 4) + 1, x.sum((1, 4))),
    normal(2, 3, 2, 4, 3, 5),
    grad=True,
)
table("kron", lambda x, y: torch.kron(x, y), normal(3, 4), normal(5, 2), grad=True)
table("block diagonal", lambda x, y: torch.block_diag(x, y), normal(3, 4), normal(5, 2))
table("tril indices", lambda x: x[tuple(torch.tril_indices(5, 5, device=x.device))], normal(5, 5), dynamic=False)
table("channels shuffled", lambda x: F.channel_shuffle(x, 4) * 2, normal(1, 8, 5, 6))
table("windows of a mask", lambda m: m.unfold(0, 5, 2).any(-1), bools(31))
table(
    "transposed bytes", lambda x: (x.t().contiguous() + 1, x.t() ^ 5), ints(33, 40, low=0, high=256, dtype=torch.uint8)
)
table(
    "transposed halves",
    lambda x, y: (x.t() + y, x.t().contiguous()),
    normal(40, 72, dtype=torch.bfloat16),
    normal(72, 40, dtype=torch.bfloat16),
)
table(
    "overlapping input",
    lambda x: x * 2 + x.sum(1, keepdim=True),
    like(normal(40), lambda t: t.as_strided((6, 10), (3, 1))),
)
table("a permuted input", lambda x: (x * 2, x.sum(1)), like(normal(4, 5, 6), lambda t: t.permute(1, 2, 0)))
