"""Integers and booleans: wrapping, division and remainders of all signs, shifts, bits, mixed widths."""

import torch
import torch.nn.functional as F

from compiled.row import Table, bools, ints, like, normal, values

table = Table("integers", exact=True)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
ALL = (torch.uint8, *SIGNED)


def short(dtype):
    return str(dtype)[6:]


def some(dtype, *shape):
    return ints(*shape, low=0 if dtype == torch.uint8 else -100, high=100, dtype=dtype)


def nonzero(dtype):
    return like(some(dtype, 4, 50), lambda t: torch.where(t == 0, 7, t).to(t.dtype))


for dtype in ALL:
    x, y = some(dtype, 4, 50), some(dtype, 4, 50)
    n = short(dtype)
    table(f"sums and products, {n}", lambda x, y: (x + y, x * y, x - y, x * 3 - 1, -x, x + x * y), x, y)
    table(
        f"quotients, {n}",
        lambda x, y: (
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            x // y,
            x % y,
            torch.fmod(x, y),
            torch.remainder(x, y),
            x / y,
        ),
        x,
        nonzero(dtype),
        tolerance=1e-6,
    )
    table(
        f"quotients by numbers, {n}",
        lambda x: (
            x // 7,
            x % 7,
            x // 16,
            x % 16,
            torch.fmod(x, 5),
            torch.div(x, 3, rounding_mode="trunc"),
            x / 4,
            100 // (x | 1),
            100 % (x | 1),
        ),
        x,
        tolerance=1e-6,
    )
    table(f"bits, {n}", lambda x, y: (x & y, x | y, x ^ y, ~x, x & 15, x | 1, x ^ 85), x, y)
    table(f"comparisons, {n}", lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y, x > 5, x < 2.5), x, y)
    table(
        f"limits, {n}",
        lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), x.clamp(3, 50), x.clamp(min=9), F.relu(x)),
        x,
        y,
    )
    table(f"signs, {n}", lambda x: (x.sign(), x.abs(), torch.square(x), x.bool(), torch.logical_not(x)), x)
    table(f"powers, {n}", lambda x, y: (x**2, x**3, torch.pow(x, (y & 3)), 2 ** (y & 7)), x, y)
    table(f"shifts, {n}", lambda x, y: (x << 1, x >> 2, x << (y & 7), x >> (y & 7), 1 << (y & 7)), x, y)
    table(
        f"reductions, {n}",
        lambda x: (x.sum(), x.sum(0), x.amax(1), x.amin(), x.prod(1), x.any(), x.all(1), x.argmax(1)),
        x,
    )
    table(
        f"to reals and back, {n}",
        lambda x: (x.float().sqrt().to(x.dtype), (x * 0.5), (x / 3).floor().to(x.dtype)),
        ints(40, low=0, high=99, dtype=dtype),
        tolerance=1e-6,
    )
    table(f"gcd and lcm, {n}", lambda x, y: (torch.gcd(x, y), torch.lcm(x & 7, y & 7)), x, y)

for dtype in SIGNED:
    info = torch.iinfo(dtype)
    ends = values(info.min, info.min + 1, -1, 0, 1, info.max - 1, info.max, dtype=dtype)
    n = short(dtype)
    table(f"ends, {n}", lambda x: (x + 1, x - 1, x * 2, -x, x.abs(), ~x, x * x, x > 0, x < -5, x.flip(0) - x), ends)
    table(
        f"quotients of ends, {n}", lambda x: (x // 3, x % 3, x // -3, x % -3, torch.fmod(x, -3), x >> 3, x // 2), ends
    )
    table(f"reductions of ends, {n}", lambda x: (x.amax(), x.amin(), x.argmax(), x.argmin(), x.sum()), ends)
    table(f"comparisons with ends, {n}", lambda x: (x == info.min, x < info.max, x >= info.min, x == info.max), ends)

for unsigned in (torch.uint16, torch.uint32, torch.uint64):
    table(
        f"loads and casts, {short(unsigned)}",
        lambda x: (x.to(torch.int64) + 1, x.to(torch.float32) * 2),
        values(0, 1, 7, 60000, dtype=unsigned),
    )

table(
    "shifts out of range",
    lambda x, y: (x << y, x >> y),
    values(-5, -1, 3, 100, 7, dtype=torch.int32),
    values(31, 32, 33, 64, 0, dtype=torch.int32),
)
table("shifts by numbers, int64", lambda x: (x << 40, x >> 40, (x << 33) >> 33), ints(40, low=-(2**40), high=2**40))
table(
    "large int64",
    lambda x, y: (x + y, x * 3, x // y, x % y, x > y, x == x, x.sum()),
    ints(50, low=-(2**60), high=2**60),
    ints(50, low=1, high=2**40),
)
table(
    "int64 past 32 bits compared",
    lambda x: (x > 2**31, x < -(2**31), x == 2**32, x.clamp(-(2**33), 2**33)),
    ints(64, low=-(2**34), high=2**34),
)
table(
    "int32 against int64",
    lambda x, y: (x + y, x * y, x > y, x // y),
    ints(64, dtype=torch.int32),
    ints(64, low=1, high=9),
)
table(
    "uint8 against int8",
    lambda x, y: (x + y, x * y, x - y, x > y),
    ints(64, low=0, high=256, dtype=torch.uint8),
    ints(64, low=-128, high=128, dtype=torch.int8),
)
table(
    "int16 against a real number",
    lambda x: (x * 1.5, x + 0.25, x / 7, x > 2.5),
    ints(64, dtype=torch.int16),
    tolerance=1e-6,
)
table(
    "uint8 wraps", lambda x: (x + 200, x * 100, x - 255, -x, ~x, x << 4), ints(64, low=0, high=256, dtype=torch.uint8)
)
table(
    "uint8 as pixels",
    lambda x: ((x.float() / 255 - 0.5) / 0.25, (x.float() * 1.7).clamp(0, 255).to(torch.uint8)),
    ints(3, 9, 11, low=0, high=256, dtype=torch.uint8),
    tolerance=1e-5,
)
table(
    "nibbles", lambda x: torch.stack([x & 15, x >> 4], -1).flatten(1), ints(5, 16, low=0, high=256, dtype=torch.uint8)
)
table(
    "bools",
    lambda x, y: (x & y, x | y, x ^ y, ~x, x == y, x != y, x + y, x * y, x > y, x.logical_xor(y)),
    bools(70),
    bools(70),
)
table(
    "bools as numbers",
    lambda x: (x + 1, x * 2, x / 2, x.sum(), x.cumsum(0), x.int() - 1, x.float().mean(), x // 1),
    bools(70),
)
table("reductions of bools", lambda x: (x.any(0), x.all(1), x.amax(0), x.amin(1), x.prod(0), x.sum(1)), bools(9, 20))
table(
    "where among integers",
    lambda x, y: (torch.where(x > y, x, y), torch.where(x > 0, 1, 0), torch.where(x > 0, x, 0)),
    ints(64),
    ints(64),
)
table("integers of two widths in where", lambda x, y: torch.where(x > 0, x, y), ints(64, dtype=torch.int32), ints(64))
table("floor division by 0", lambda x: (x // (x * 0 + 3), x % (x * 0 + 3)), ints(64))
table(
    "mean of integers as reals",
    lambda x: (x.double().mean(), x.float().mean(0), x.sum(dtype=torch.float32)),
    ints(9, 9),
    tolerance=1e-5,
)
table(
    "sum in int32",
    lambda x: (x.sum(dtype=torch.int32), x.sum(0, dtype=torch.int64), x.prod(dtype=torch.int64)),
    ints(9, 9, low=1, high=3, dtype=torch.int8),
)
table("hash by multiplication", lambda x: ((x * 2654435761) % 4294967296) >> 16, ints(64, low=0, high=2**31))
table(
    "hash in int32",
    lambda x: (x ^ (x >> 15)) * 739982445 ^ (x << 3),
    ints(64, low=-(2**31), high=2**31 - 1, dtype=torch.int32),
)
table("one hot", lambda x: F.one_hot(x, 8) + 1, ints(4, 5, low=0, high=8))
table("tril of integers", lambda x: (x.tril(), x.triu(1), torch.ones_like(x).tril(-1)), ints(7, 9))
table(
    "a constant below",
    lambda x: (
        torch.tensor(5, dtype=torch.uint8, device=x.device) - x,
        torch.tensor(7, dtype=torch.uint8, device=x.device).neg() < x,
    ),
    ints(40, low=0, high=9, dtype=torch.uint8),
)
table(
    "remainder and quotient of positions",
    lambda x: x + torch.arange(60, device=x.device) % 7 - torch.arange(60, device=x.device) // 11,
    ints(60),
)
table(
    "negative positions",
    lambda x: (torch.arange(-30, 30, device=x.device) // 7 + x, torch.arange(-30, 30, device=x.device) % 7 - x),
    ints(60),
)
table("steps down", lambda x: x * torch.arange(60, 0, -1, device=x.device), ints(60))
table("count of bits", lambda x: ((x & 1) + ((x >> 1) & 1) + ((x >> 2) & 1)).sum(1), ints(6, 50, low=0, high=100))
table("isin", lambda x: torch.isin(x, torch.tensor([1, 3, 5], device=x.device)), ints(50))
table("bucketize", lambda x: torch.bucketize(x, torch.tensor([-4.0, 0.0, 0.5, 2.0], device=x.device)), normal(50))
table(
    "searchsorted",
    lambda s, x: (torch.searchsorted(s, x), torch.searchsorted(s, x, right=True, out_int32=True)),
    like(normal(33), lambda t: t.sort().values),
    normal(5, 9),
)
