"""Every collective over dtypes and layouts, waited for at once and later, against values computed here."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import warnings

import torch
import torch.distributed as dist

from distributed_group import device, rank, refused, size, start

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DTYPES = [*FLOATS, *INTEGERS, torch.bool]
LAYOUTS = ["contiguous", "transposed", "offset and step"]
SHAPE = (4 * size, 3)  # the first dimension is divided among the ranks
FILL = 1  # between the elements of a strided tensor, where no collective may write


def value(of_rank: int, dtype: torch.dtype, salt: int = 0, shape: tuple = SHAPE) -> torch.Tensor:
    """What that rank sends: small whole numbers, so that sums and products are exact in each dtype."""
    generator = torch.Generator().manual_seed(1000 * salt + of_rank)
    low = 0 if dtype in (torch.uint8, torch.bool) else -3
    numbers = torch.randint(low, 2 if dtype == torch.bool else 4, shape, generator=generator)
    return numbers.to(dtype)


def values(dtype: torch.dtype, salt: int = 0, shape: tuple = SHAPE) -> list[torch.Tensor]:
    return [value(r, dtype, salt, shape) for r in range(size)]


def placed(t: torch.Tensor, layout: str) -> torch.Tensor:
    """`t` on the device, in that layout."""
    if layout == "transposed":
        return t.to(device).transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "offset and step":
        wide = torch.full((*t.shape[:-1], 2 * t.shape[-1] + 3), FILL, dtype=t.dtype, device=device)
        view = wide[..., 3 : 3 + 2 * t.shape[-1] : 2]
        view.copy_(t)
        return view
    return t.to(device)


def same(actual: torch.Tensor, expected: torch.Tensor, what: str, exact: bool = True) -> None:
    found = actual.cpu()
    assert found.dtype == expected.dtype and found.shape == expected.shape, (what, found.dtype, found.shape)
    if exact:
        assert torch.equal(found, expected), f"{what}\nfound {found}\nexpected {expected}"
    else:
        torch.testing.assert_close(found, expected, msg=lambda text: f"{what}: {text}")
    if actual._base is not None and actual._base.shape[-1] == 2 * actual.shape[-1] + 3:
        between = actual._base.cpu().clone()
        between[..., 3 : 3 + 2 * actual.shape[-1] : 2] = FILL
        assert (between == FILL).all(), f"{what}: written beside the tensor"


def reduced(op: str, all_values: list[torch.Tensor]) -> torch.Tensor:
    dtype = all_values[0].dtype
    wide = torch.stack([v.double() if dtype.is_floating_point else v.long() for v in all_values])
    if op in ("SUM", "AVG"):
        total = wide.sum(0)
        if op == "AVG":
            total = total / size if dtype.is_floating_point else torch.div(total, size, rounding_mode="trunc")
        return total.bool() if dtype == torch.bool else total.to(dtype)
    if op in ("MIN", "MAX"):
        return getattr(wide, f"a{op.lower()}")(0).to(dtype)
    functions = {"PRODUCT": torch.mul, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
    return functools.reduce(functions[op], wide).to(dtype)


class Case:
    """One dtype, layout and manner of waiting; `run` calls a collective."""

    def __init__(self, dtype, layout, later):
        self.dtype, self.layout, self.later = dtype, layout, later

    def run(self, function, *args, **kwargs):
        work = function(*args, **kwargs, async_op=self.later)
        if self.later:
            work.wait()
        self.what = f"{function.__name__} {self.dtype} {self.layout} later={self.later} rank {rank}"

    def mine(self, salt=0):
        return placed(value(rank, self.dtype, salt), self.layout)

    def empty(self, shape=SHAPE):
        return placed(torch.full(shape, FILL, dtype=self.dtype), self.layout)

    def same(self, actual, expected):
        same(actual, expected, self.what)


def broadcast(c):
    t = c.mine()
    c.run(dist.broadcast, t, src=size - 1)
    c.same(t, value(size - 1, c.dtype))


def all_reduce(c):
    t = c.mine()
    c.run(dist.all_reduce, t)
    c.same(t, reduced("SUM", values(c.dtype)))


def reduce(c):
    t = c.mine()
    c.run(dist.reduce, t, dst=1)
    c.same(t, reduced("SUM", values(c.dtype)) if rank == 1 else value(rank, c.dtype))


def all_gather(c):
    outputs = [c.empty() for _ in range(size)]
    c.run(dist.all_gather, outputs, c.mine())
    for output, expected in zip(outputs, values(c.dtype), strict=True):
        c.same(output, expected)


def all_gather_into_tensor(c):
    output = c.empty((SHAPE[0] * size, SHAPE[1]))
    c.run(dist.all_gather_into_tensor, output, c.mine())
    c.same(output, torch.cat(values(c.dtype)))


def reduce_scatter(c):
    inputs = [c.mine(salt) for salt in range(size)]
    output = c.empty()
    c.run(dist.reduce_scatter, output, inputs)
    c.same(output, reduced("SUM", values(c.dtype, rank)))


def reduce_scatter_tensor(c):
    output = c.empty((SHAPE[0] // size, SHAPE[1]))
    c.run(dist.reduce_scatter_tensor, output, c.mine(), op=dist.ReduceOp.MAX)
    c.same(output, reduced("MAX", values(c.dtype)).chunk(size)[rank])


def all_to_all(c):
    """The tensor for a rank has as many rows as both ranks' numbers say."""
    shapes = [(1 + rank + r, 3) for r in range(size)]
    inputs = [placed(value(rank, c.dtype, r, shapes[r]), c.layout) for r in range(size)]
    outputs = [c.empty(shape) for shape in shapes]
    c.run(dist.all_to_all, outputs, inputs)
    for r, output in enumerate(outputs):
        c.same(output, value(r, c.dtype, rank, shapes[r]))


def all_to_all_single(c):
    output = c.empty()
    c.run(dist.all_to_all_single, output, c.mine())
    c.same(output, torch.cat([v.chunk(size)[rank] for v in values(c.dtype)]))
    # Rank r sends its first row to 0, the next two to 1, and so on.
    rows = [r + 1 for r in range(size)]
    sent = placed(value(rank, c.dtype, 5, (sum(rows), 2)), c.layout)
    output = c.empty((size * rows[rank], 2))
    c.run(dist.all_to_all_single, output, sent, [rows[rank]] * size, rows)
    parts = [v.split(rows)[rank] for v in values(c.dtype, 5, (sum(rows), 2))]
    c.same(output, torch.cat(parts))


def gather(c):
    outputs = [c.empty() for _ in range(size)] if rank == 1 else None
    c.run(dist.gather, c.mine(), outputs, dst=1)
    for output, expected in zip(outputs or [], values(c.dtype)):
        c.same(output, expected)


def scatter(c):
    output = c.empty()
    c.run(dist.scatter, output, [c.mine(salt) for salt in range(size)] if rank == 1 else None, src=1)
    c.same(output, value(1, c.dtype, rank))


def ring(c):
    """All send before any receives."""
    received = c.empty()
    sent = c.mine()
    if c.later:
        works = [dist.isend(sent, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
        for work in works:
            work.wait()
    elif rank % 2 == 0:
        dist.send(sent, (rank + 1) % size)
        dist.recv(received, (rank - 1) % size)
    else:
        dist.recv(received, (rank - 1) % size)
        dist.send(sent, (rank + 1) % size)
    same(received, value((rank - 1) % size, c.dtype), f"ring {c.dtype} {c.layout}")


COLLECTIVES = [
    *(broadcast, all_reduce, reduce, all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor),
    *(all_to_all, all_to_all_single, gather, scatter, ring),
]


def reductions():
    for dtype in DTYPES:
        ops = ["SUM", "PRODUCT", "MIN", "MAX"]
        ops += ["AVG"] if dtype != torch.bool else []
        ops += ["BAND", "BOR", "BXOR"] if not dtype.is_floating_point else []
        for op in ops:
            t = value(rank, dtype).to(device)
            dist.all_reduce(t, op=getattr(dist.ReduceOp, op))
            same(t, reduced(op, values(dtype)), f"{op} {dtype}", exact=op != "AVG" or not dtype.is_floating_point)
    for factor in (0.5, torch.tensor(0.5, device=device)):
        expected = reduced("SUM", values(torch.float32)) * 0.5
        op = dist._make_nccl_premul_sum(factor)
        t = value(rank, torch.float32).to(device)
        dist.all_reduce(t, op=op)
        same(t, expected, "PREMUL_SUM")
        output = torch.empty(4, 3, device=device)
        dist.reduce_scatter_tensor(output, value(rank, torch.float32).to(device), op=op)
        same(output, expected.chunk(size)[rank], "PREMUL_SUM")
    for t, op in ((torch.ones(2), "BAND"), (torch.ones(2, dtype=torch.bool), "AVG")):
        refused(lambda t=t, op=op: dist.all_reduce(t.to(device), op=getattr(dist.ReduceOp, op)), "all_reduce:")


def complex_reductions():
    """SUM and AVG, as on the CPU, in layouts and of a conjugate."""

    def alike(actual, expected, what, exact=True):
        if expected.dtype == torch.complex32:  # the CPU compares none
            assert actual.dtype == torch.complex32, (what, actual.dtype)
            actual, expected = actual.cpu().to(torch.complex64), expected.to(torch.complex64)
        same(actual, expected, what, exact)

    for dtype in (torch.complex64, torch.complex128, torch.complex32):

        def value_of(r, salt=0, dtype=dtype):
            return torch.complex(value(r, torch.float64, salt), value(r, torch.float64, salt + 9)).to(dtype)

        def total(salt=0, op="SUM"):
            wide = sum(value_of(r, salt).to(torch.complex128) for r in range(size))
            return (wide / size if op == "AVG" else wide).to(dtype)

        for op in ("SUM", "AVG") if dtype != torch.complex32 else ("SUM",):
            exact, reduce_op = op == "SUM", getattr(dist.ReduceOp, op)
            for layout in LAYOUTS if dtype == torch.complex64 else LAYOUTS[1:2]:
                t = placed(value_of(rank), layout)
                dist.reduce(t, dst=1, op=reduce_op)
                alike(t, total(op=op) if rank == 1 else value_of(rank), f"reduce {op} {dtype} {layout}", exact)
                t = placed(value_of(rank), layout)
                dist.all_reduce(t, op=reduce_op)
                alike(t, total(op=op), f"all_reduce {op} {dtype} {layout}", exact)
                output = placed(torch.full(SHAPE, FILL, dtype=dtype), layout)
                dist.reduce_scatter(output, [placed(value_of(rank, s), layout) for s in range(size)], op=reduce_op)
                alike(output, total(rank, op), f"reduce_scatter {op} {dtype} {layout}", exact)
                output = torch.empty(4, 3, dtype=dtype, device=device)
                dist.reduce_scatter_tensor(output, placed(value_of(rank), layout), op=reduce_op)
                alike(output, total(op=op).chunk(size)[rank], f"reduce_scatter_tensor {op} {dtype} {layout}", exact)
        if dtype != torch.complex32:
            t = value_of(rank).to(device)
            dist.reduce(t.conj() if rank == 0 else t, dst=1)  # of one rank alone
            if rank == 1:
                expected = total() - value_of(0) + value_of(0).conj()
                alike(t, expected, f"reduce of a conjugate {dtype}")


def refusals():
    """Each names the collective, before anything is sent: the group goes on."""

    def on_device(dtype=torch.float32, shape=SHAPE):
        return torch.ones(shape).to(dtype).to(device)

    for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2):
        t = torch.zeros(SHAPE).to(dtype).to(device)
        for name, call in (("all_reduce", lambda t: dist.all_reduce(t)), ("reduce", lambda t: dist.reduce(t, dst=0)),
                           ("reduce_scatter", lambda t: dist.reduce_scatter(t, [t] * size)),
                           ("reduce_scatter_tensor", lambda t: dist.reduce_scatter_tensor(t[:4], t))):  # fmt: skip
            refused(lambda: call(t), f"{name}: cannot reduce tensors of")  # noqa: B023
    for op in ("PRODUCT", "MAX", "BAND"):
        t = on_device(torch.complex64)
        refused(lambda: dist.reduce(t, dst=0, op=getattr(dist.ReduceOp, op)), "there is SUM and AVG only")  # noqa: B023
    refused(lambda: dist.reduce(on_device(torch.complex32), dst=0, op=dist.ReduceOp.AVG), "there is SUM only")
    ours, theirs = on_device(), torch.ones(SHAPE)
    one_device = "expected tensors of one device, got"
    rows = (SHAPE[0] * size, SHAPE[1])
    for call in (lambda: dist.all_gather([theirs] * size, ours),
                 lambda: dist.all_gather_into_tensor(torch.ones(rows), ours),
                 lambda: dist.reduce_scatter(ours, [theirs] * size),
                 lambda: dist.reduce_scatter_tensor(on_device(shape=(4, 3)), theirs),
                 lambda: dist.all_to_all([theirs] * size, [ours] * size),
                 lambda: dist.all_to_all_single(theirs, ours),
                 lambda: dist.all_gather([ours] * size, theirs),
                 lambda: dist.all_gather_into_tensor(on_device(shape=rows), theirs),
                 lambda: dist.reduce_scatter(theirs, [ours] * size),
                 lambda: dist.all_to_all([ours] * size, [theirs] * size)):  # fmt: skip
        refused(call, one_device)
    if rank == 1:  # the others would wait for it
        refused(lambda: dist.gather(ours, [theirs] * size, dst=1), f"gather: {one_device}")
        refused(lambda: dist.scatter(ours, [theirs] * size, src=1), f"scatter: {one_device}")
    dist.barrier()
    dist.all_reduce(ours)
    same(ours, torch.full(SHAPE, float(size)), "after refusals")


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)  # of names that newer versions of PyTorch have in two forms
    start(sys.argv[4])
    if sys.argv[5:] == ["complex"]:
        refusals()
        complex_reductions()
        dist.destroy_process_group()
        sys.exit()
    # Three ranks need not do again all that two did.
    is_long = bool(os.environ.get("TORCH_AULE_LONG_TESTS"))
    dtypes = DTYPES if size == 2 or is_long else [torch.float32, torch.bool]
    forms = list(itertools.product(LAYOUTS, (False, True)))
    for (i, dtype), (j, collective) in itertools.product(enumerate(dtypes), enumerate(COLLECTIVES)):
        # A collective meets all forms, and a dtype does; at night each of its dtypes does.
        for layout, later in forms if is_long else [forms[(i + j) % len(forms)]]:
            collective(Case(dtype, layout, later))
    reductions()
    dist.destroy_process_group()
