"""Which form a generated kernel takes: decided from facts alone, so devices are made up and no kernel runs."""

import dataclasses
import inspect
from types import SimpleNamespace

import pytest
import sympy
import torch

pytest.importorskip("torch._inductor.codegen.simd")

from torch_aule.compile.codegen import facts, source  # noqa: E402
from torch_aule.compile.codegen.facts import DeviceFacts, KernelFacts  # noqa: E402
from torch_aule.compile.codegen.forms.fitting import Work  # noqa: E402
from torch_aule.compile.codegen.forms.form import Form  # noqa: E402
from torch_aule.compile.codegen.statements import Access, Body, Reduction, Statement  # noqa: E402
from torch_aule.compile.codegen.writer import Writer  # noqa: E402

GPU = DeviceFacts()
LAVAPIPE = DeviceFacts(software=True, subgroup_size=8)
HALF, FLOAT, DOUBLE = torch.float16, torch.float32, torch.float64
X, X1, Y, R = (sympy.Symbol(name, integer=True, nonnegative=True) for name in ("x0", "x1", "y0", "r0_1"))


def entry(name, prefix, length, divisor=1):
    """A part of an axis' index."""
    index = sympy.Symbol(f"{prefix}index", integer=True, nonnegative=True)
    return SimpleNamespace(name=name, prefix=prefix, length=length, divisor=divisor, expr=index // divisor)


def access(argument, index, dtype):
    return Access(f"buf_{argument}", argument, index, str(index), dtype)


def pointwise(device, numels, load, store=X, dtype=FLOAT, entries=None, **options):
    """Facts of out[store] = 2 in[load] for all elements of the axes `sizes`."""
    entries = tuple(entry(f"{prefix}0", prefix, n) for prefix, n in numels.items()) if entries is None else entries
    body = Body()
    body.element_names |= {e.name for e in entries}
    body.add(Statement("AULE_LOAD_F32(p.in_ptr0, 0)", defines="tmp0", dtype=FLOAT, load=access("in_ptr0", load, dtype)))
    body.add(Statement("tmp0 * 2.0", defines="tmp1", dtype=FLOAT))
    body.add(Statement("tmp1", store=access("out_ptr0", store, dtype)))
    return KernelFacts(device, tuple(body.statements), entries, numels, **options)


def total(device, rows, n, load, dtype=FLOAT, **options):
    """Facts of out[x] = the sum over r of in[load]."""
    body = Body()
    body.element_names.add("r0_1")
    body.add(Statement("AULE_LOAD_F32(p.in_ptr0, 0)", defines="tmp0", dtype=FLOAT, load=access("in_ptr0", load, dtype)))
    texts = ("acc0 = acc0 + tmp0;", "acc0 = acc0 + acc0_other;")
    body.add(Statement(reduction=Reduction("sum", ("acc0",), (FLOAT,), ("0.0",), *texts)))
    body.add(Statement("acc0", store=access("out_ptr0", X, FLOAT)))
    entries, numels = (entry("x0", "x", rows), entry("r0_1", "r0_", n)), {"x": rows, "r0_": n}
    return KernelFacts(device, tuple(body.statements), entries, numels, prefix="r0_", is_reduction=True, **options)


def part_of_rows(device, n, rows=8):
    """Facts of a copy of all elements but the first of each row of n + 1."""
    parts = (entry("x0", "x", n), entry("x1", "x", rows, n))
    return pointwise(device, {"x": rows * n}, X + (n + 1) * X1 + 1, X + n * X1, entries=parts)


FLAT, ACROSS = {"x": 1 << 15}, {"x": 100, "y": 60}
CASES = {
    "neighbours": (pointwise(GPU, FLAT, X), "Vectors", Work(256, 4)),
    "neighbours of 2 bytes": (pointwise(GPU, FLAT, X, dtype=HALF), "Vectors", Work(256, 8)),
    "an odd size": (pointwise(GPU, {"x": 1001}, X), "Vectors", Work(256)),
    "one of two begins anywhere": (pointwise(GPU, FLAT, X + 1), "Vectors", Work(256, 4)),
    "nothing begins aligned": (pointwise(GPU, FLAT, X + 1, X + 1), "Vectors", Work(256)),
    "not aligned": (
        pointwise(GPU, FLAT, X, unaligned=frozenset(("buf_in_ptr0", "buf_out_ptr0"))), "Vectors", Work(256)
    ),
    "without vectors": (pointwise(GPU, FLAT, X, vectors=False), "Vectors", Work(256)),
    "a transpose": (pointwise(GPU, ACROSS, 60 * X + Y, X + 100 * Y), "Tile", Work(256)),
    "rows of an odd length": (part_of_rows(GPU, 1031), "OddRows", Work(256, 4)),
    "short rows of an odd length": (part_of_rows(GPU, 1021), "Vectors", Work(256)),
    "rows of an odd length, software": (part_of_rows(LAVAPIPE, 1031), "Vectors", Work(64)),
    "lanes": (pointwise(LAVAPIPE, FLAT, X), "LaneBlocks", Work(8, 8)),
    "lanes of other subgroups": (
        pointwise(DeviceFacts(software=True, subgroup_size=16), FLAT, X), "Vectors", Work(64, 4)
    ),
    "lanes with errors": (pointwise(LAVAPIPE, FLAT, X, uses_errors=True), "Vectors", Work(64, 4)),
    "lanes with sizes": (pointwise(LAVAPIPE, FLAT, X, sizes=frozenset(("s0",))), "Vectors", Work(64, 4)),
    "lanes of float64": (pointwise(LAVAPIPE, FLAT, X, host_scalars={"n": DOUBLE}), "Vectors", Work(64, 4)),
    "rows": (total(GPU, 64, 256, 256 * X + R, persistent=True), "Rows", Work(256, 4, 32, 2, combine="subgroup")),
    "rows without shuffles": (
        total(DeviceFacts(shuffles=False), 64, 256, 256 * X + R), "Rows", Work(64, 4, 64, combine="shared")
    ),
    "long rows": (total(GPU, 64, 65536, 65536 * X + R), "Rows", Work(256, 4, 256, combine="group")),
    "long rows of an odd length": (total(GPU, 64, 50257, 50257 * X + R), "Rows", Work(256, 4, 256, combine="group")),
    "rows, software": (total(LAVAPIPE, 64, 250, 250 * X + R), "Rows", Work(64)),
    "short rows, software": (total(LAVAPIPE, 512, 64, 64 * X + R), "LanesOfRow", Work(8, 2, 8, 4, combine="subgroup")),
    "short columns, software": (total(LAVAPIPE, 512, 64, X + 512 * R), "LaneColumns", Work(8, items=64, column=True)),
    "columns": (total(GPU, 512, 64, X + 512 * R), "Columns", Work(256, threads=16, column=True, combine="shared")),
    "an odd number of columns": (
        total(GPU, 513, 64, X + 513 * R), "Rows", Work(256, threads=16, column=True, combine="shared")
    ),
    "more sums than fit": (
        total(DeviceFacts(shared_bytes=4095), 512, 64, X + 512 * R), "Rows",
        Work(256, threads=16, column=True, combine="shared"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("known, form, work", CASES.values(), ids=CASES)
def test_form_and_work(known, form, work):
    made = source.form_of(known)
    assert (type(made).__name__, made.work) == (form, work)
    writer = Writer(known, str)
    made.lines(writer)
    text = "\n".join(writer.lines)
    assert text.count("{") == text.count("}") and "in_ptr0" in text and "out_ptr0" in text
    assert made.groups().isdigit()


def test_each_kernel_has_one_answer():
    """Facts are as they were after every form was asked, and forms that are tried again say the same."""
    for known, form, work in CASES.values():
        before = {field.name: getattr(known, field.name) for field in dataclasses.fields(known)}
        for kind in source.FORMS:
            kind.fits(known)
        assert {field.name: getattr(known, field.name) for field in dataclasses.fields(known)} == before
        assert (type(source.form_of(known)).__name__, source.form_of(known).work) == (form, work)


def test_every_form_is_tried():
    def concrete(kind):
        found = [] if inspect.isabstract(kind) or kind.__name__.startswith("_") else [kind]
        return found + [other for below in kind.__subclasses__() for other in concrete(below)]

    assert len(set(source.FORMS)) == len(source.FORMS) and set(source.FORMS) == set(concrete(Form))
    assert {form for _, form, _ in CASES.values()} == {kind.__name__ for kind in source.FORMS}


def test_facts_that_are_overridden(device):
    own = facts.of_device(device)
    with facts.override(software=not own.software, shared_bytes=1):
        with facts.override(shared_bytes=2):
            assert facts.of_device(device) == dataclasses.replace(own, software=not own.software, shared_bytes=2)
        assert facts.is_software(device) != own.software and facts.of_device(device).shared_bytes == 1
        with pytest.raises(TypeError, match="no_such_fact"), facts.override(no_such_fact=1):
            pass
        with pytest.raises(ZeroDivisionError), facts.override(shared_bytes=3):
            1 / 0  # noqa: B018
        assert facts.of_device(device).shared_bytes == 1
    assert facts.of_device(device) == own


def test_facts_and_forms_are_frozen():
    known, *_ = CASES["neighbours"]
    form = source.form_of(known)
    for value, name in ((known, "vectors"), (known.device, "software"), (form, "work"), (form.work, "vec")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)
