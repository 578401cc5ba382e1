"""Casts between dtypes, arithmetic in 16 bits, float64, float8, bits of other types."""

import torch
import torch.nn.functional as F

from compiled.row import INF, NAN, Table, bools, ints, like, normal, uniform, values

table = Table("casts")
HALF, BRAIN, DOUBLE = torch.float16, torch.bfloat16, torch.float64
FLOATS = (HALF, BRAIN, torch.float32, DOUBLE)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)


def short(dtype):
    return str(dtype)[6:]


for a in FLOATS:
    x, y = normal(6, 40, dtype=a), normal(6, 40, dtype=a)
    n = short(a)
    table(f"a chain, {n}", lambda x, y: (F.gelu(x * 2 + y), torch.tanh(x) - y.exp() * 0.1), x, y, grad=True)
    table(
        f"activations, {n}",
        lambda x: (F.silu(x), F.softplus(x), F.mish(x), F.elu(x), x.sigmoid(), F.leaky_relu(x)),
        x,
        grad=True,
    )
    table(f"sums, {n}", lambda x: (x.sum(1), x.mean(0), x.amax(1), x.var(1), x.norm(dim=1), x.prod(1), x.sum()), x)
    table(f"softmax, {n}", lambda x: (x.softmax(1), x.log_softmax(0), x.logsumexp(1)), x, grad=True)
    table(f"layer norm, {n}", lambda x, w: F.layer_norm(x, (40,), w, w), x, normal(40, dtype=a), grad=True)
    table(f"scalars, {n}", lambda x: (x + 1, x * 0.1, 1 / (x.abs() + 1), x**2, x > 0.5, x / 3), x)
    table(f"odd columns, {n}", lambda x, y: (x[:, 1:34] * y[:, :33], x[:, 3:10].sum(1)), x, y, grad=True)
    table(
        f"to every integer, {n}",
        lambda x: [x.to(t) for t in INTS if t != torch.uint8],
        like(x, lambda t: t * 10),
        exact=True,
    )
    table(
        f"from every integer, {n}",
        lambda i, a=a: [i.to(t).to(a) * 0.5 for t in INTS],
        ints(40, low=0, high=100),
        exact=True,
    )
    table(f"to every real, {n}", lambda x: [(x * 3).to(t) for t in FLOATS], x)
    table(
        f"special values, {n}",
        lambda x: (
            x + 1,
            x * 2,
            x.abs(),
            x.isnan(),
            x.isinf(),
            x == x,
            x.clamp(-1, 1),
            x.sign(),
            torch.maximum(x, -x),
            x.float(),
        ),
        values(NAN, INF, -INF, 0.0, -0.0, 1.0, 65504.0, 1e-7, -3e-5, dtype=a),
        exact=True,
    )
    table(f"transposed sums, {n}", lambda x: (x.t().contiguous() * 2, x.sum(0), (x.t() + 1).sum(0)), x)
    table(f"concatenated, {n}", lambda x, y: (torch.cat([x, y * 2], 1), torch.stack([x, y]), F.pad(x, (1, 2))), x, y)

table(
    "halves of three widths",
    lambda a, b, c: (a + b, a * c, b + c, a.float() * b),
    normal(40, dtype=HALF),
    normal(40, dtype=BRAIN),
    normal(40),
)
table(
    "half overflows",
    lambda x: (x * x, x + x, x.float() * x.float()),
    values(300.0, 40000.0, -60000.0, 1.0, dtype=HALF),
    exact=True,
)
table("a half in between", lambda x: (x.half().float() * 3, x.bfloat16().float() + 1), normal(64), tolerance=2e-2)
table("a cast there and back", lambda x: (x.to(HALF).to(torch.float32), x.double().float()), normal(64), tolerance=2e-3)
table(
    "mixed precision by hand",
    lambda x, w: (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w,
    normal(5, 64, dtype=BRAIN),
    normal(64, dtype=BRAIN),
    grad=True,
)
table(
    "sum of halves in float32",
    lambda x: (x.sum(dtype=torch.float32), x.float().mean(1), x.sum(1)),
    normal(5, 200, dtype=HALF),
)
table("float64 constants", lambda x: (x * 0.1, x + 1e-12, x / 3, x.sqrt()), uniform(50, dtype=DOUBLE))
table(
    "float64 functions",
    lambda x: (x.exp(), x.sin(), x.log(), x.tanh(), x.erf(), x.sigmoid(), x.expm1(), x.log1p()),
    uniform(50, low=0.1, dtype=DOUBLE),
)
table(
    "further float64 functions",
    lambda x: (x.tan(), x.asin(), x.sinh(), x.atan(), x.lgamma(), x.acosh(), x.i0()),
    uniform(50, low=1.0, high=1.0, dtype=DOUBLE),
)
table(
    "float64 reductions",
    lambda x: (x.sum(), x.var(0), x.softmax(1), x.amax(1), x.argmin(1), x.prod(0)),
    normal(9, 30, dtype=DOUBLE),
)
table(
    "float64 between float32",
    lambda x: ((x.double() * 3.3).float(), x.double().sum().float(), x.double().exp()),
    normal(50),
)
table(
    "float32 and float64", lambda x, y: (x + y, x * y, torch.where(x > y, x, y)), normal(50), normal(50, dtype=DOUBLE)
)
table(
    "float32 to integers past the end",
    lambda x: (x.to(torch.int32), x.to(torch.int64), x.to(torch.int16)),
    values(-5.9, 5.9, 0.5, -0.5, 2.5, 1e4, -1e4),
    exact=True,
)
table("negative reals to uint8 by int", lambda x: (x * 50).to(torch.int32).to(torch.uint8), normal(50), exact=True)
table(
    "bool to each",
    lambda m: [m.to(t) + 0 for t in (*FLOATS, torch.int8, torch.int64, torch.uint8)],
    bools(40),
    exact=True,
)
table(
    "narrowing integers",
    lambda x: [x.to(t) for t in (torch.int8, torch.int16, torch.int32, torch.uint8, torch.bool)],
    ints(60, low=-(2**40), high=2**40),
    exact=True,
)
table(
    "narrowing, then arithmetic",
    lambda x: (x.to(torch.int8).int() + 1, x.to(torch.uint8) * 3, x.to(torch.int16) - 5),
    ints(60, low=-100000, high=100000),
    exact=True,
)
table("int64 to float32", lambda x: (x.float(), x.double(), x * 1.0), ints(60, low=-(2**24), high=2**24), exact=True)
table(
    "bits of float32",
    lambda x: (x.view(torch.int32) + 1, (x.view(torch.int32) >> 23) & 255, (x * 2).view(torch.int32)),
    normal(64),
    exact=True,
)
table(
    "bits of 16",
    lambda x, y: ((x + 1).view(torch.int16) * 2, y.view(torch.int16) & 255, (x * 2).view(torch.int16) + 1),
    normal(64, dtype=HALF),
    normal(64, dtype=BRAIN),
    exact=True,
)
table(
    "bits to float32",
    lambda i: ((i & 0x7FFFFF) | 0x3F800000).to(torch.int32).view(torch.float32) - 1,
    ints(64, low=0, high=2**31),
    exact=True,
)
table("bits of float64", lambda x: (x.view(torch.int64) ^ 1).view(DOUBLE), normal(64, dtype=DOUBLE), exact=True)
table(
    "bytes of int32",
    lambda x: (x.view(torch.uint8), (x + 1).view(torch.uint8).to(torch.int32).sum()),
    ints(16, dtype=torch.int32),
    exact=True,
)
table("int8 of bytes", lambda x: x.view(torch.int8) * 2, ints(64, low=0, high=256, dtype=torch.uint8), exact=True)
table("bool of bytes", lambda x: (x > 3).view(torch.uint8) + 1, ints(64, low=0, high=9, dtype=torch.uint8), exact=True)
table(
    "quantise per row",
    lambda x: ((s := x.abs().amax(1, keepdim=True) / 127), (x / s).round().clamp(-128, 127).to(torch.int8)),
    normal(6, 40),
    exact=True,
)
table("dequantise", lambda q, s: (q.float() - 3) * s, ints(6, 40, low=-128, high=128, dtype=torch.int8), uniform(6, 1))
table(
    "complex product",
    lambda x: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(x.flip(0))),
    normal(8, 2),
)
table("complex result", lambda x, y: torch.complex(x, y) * 2, normal(8), normal(8))
table(
    "result type of scalars",
    lambda x, i: (x.half() * 2.5, i * 2, i * 2.5, i.to(torch.int8) + 300),
    normal(30),
    ints(30),
    exact=True,
)
table("type promotion with 0 dimensions", lambda x, d: (x + d, d * 2, x.half() + d), normal(30), normal(dtype=DOUBLE))
