"""The pure parts of Triton's backend: reading TTIR, facts about integers, layouts, matrices. No device is asked."""

import math
import random

import numpy as np
import pytest

from torch_aule.triton.facts import known, pointer_arguments
from torch_aule.triton.ir import Unsupported
from torch_aule.triton.layout import blocked, log2
from torch_aule.triton.matrices import matrix_of, tiled
from torch_aule.triton.prefetch import prefetch
from torch_aule.triton.reader import read
from torch_aule.triton.writer import Device

# As an H100 and lavapipe 26 answer `_C.matrix_layout` for float16.
HOPPER = {
    "usable": True, "known": True, "truncates": False, "m": 16, "n": 16, "subgroup": 32, "elements": 8, "lane_div": 4,
    "lane_row": 1, "lane_col": 2, "rows": 0x88008800, "cols": 0x98981010,
    "acc_is_a_operand": True, "a_elem": 0x76543210,
}  # fmt: skip
LAVAPIPE = {
    "usable": True, "known": True, "truncates": False, "m": 8, "n": 8, "subgroup": 8, "elements": 8, "lane_div": 8,
    "lane_row": 0, "lane_col": 1, "rows": 0x76543210, "cols": 0,
    "acc_is_a_operand": True, "a_elem": 0x76543210,
}  # fmt: skip


def value_of(text, **numbers):
    """GLSL of shifts, masks and sums, of whole arrays at once."""
    return eval(text or "0", numbers)


def places(layout, threads):
    """Which element each register of each thread has, from the texts that kernels are written with."""
    tid, r = np.arange(threads)[:, None], np.arange(layout.count)[None, :]
    rows = []
    for axis in range(len(layout.shape)):
        part = layout.register_part(axis, "r")
        rows.append(value_of(layout.thread_part(axis), tid=tid) + value_of(part, r=r) + 0 * (tid + r))
        for own in range(layout.count):  # a number is computed here, not in the kernel
            assert value_of(layout.register_part(axis, str(own))) == value_of(part, r=own)
    found = {}
    for t in range(threads):
        for own in range(layout.count):
            found.setdefault(tuple(int(row[t, own]) for row in rows), []).append((t, own))
    return found


def assert_whole(layout, threads):
    """Every element is somewhere, and each as often."""
    found = places(layout, threads)
    assert set(found) == set(np.ndindex(*layout.shape))
    assert {len(holders) for holders in found.values()} == {threads * layout.count // math.prod(layout.shape)}
    once = [tid for holders in found.values() for tid, _ in holders if tid & layout.replica_mask == 0]
    assert len(once) == math.prod(layout.shape)  # who goes on under `only_once`


@pytest.mark.parametrize("shape", [(64,), (8, 16), (1, 256), (128, 2), (4, 8, 8), (2, 2, 2, 2)])
@pytest.mark.parametrize("threads", [8, 128])
@pytest.mark.parametrize("vector", [1, 4])
def test_layouts_hold_every_element(shape, threads, vector):
    layout = blocked(shape, threads, vector)
    assert_whole(layout, threads)
    assert_whole(blocked(shape, threads, vector, list(range(len(shape)))), threads)
    for axis in range(len(shape)):
        if len(shape) > 1:
            assert_whole(layout.without_axis(axis), threads)
        assert_whole(layout.with_axis(axis), threads)
        assert_whole(layout.narrowed(tuple(1 if i == axis else n for i, n in enumerate(shape))), threads)
    assert_whole(layout.reshaped((math.prod(shape),)), threads)
    assert_whole(layout.joined(), threads)


def test_a_permuted_layout_has_the_transposed_element():
    layout = blocked((8, 16, 4), 32, 2)
    turned = layout.permuted([2, 0, 1])
    before, after = places(layout, 32), places(turned, 32)
    assert all(after[c, a, b] == holders for (a, b, c), holders in before.items())


@pytest.mark.parametrize("known_of", [HOPPER, LAVAPIPE])
@pytest.mark.parametrize("shape", [(16, 16), (64, 32), (128, 128), (16, 128)])
@pytest.mark.parametrize("groups", [1, 4, 8])
@pytest.mark.parametrize("by_rows", [False, True])
def test_matrices_are_layouts(known_of, shape, groups, by_rows):
    matrix = matrix_of("f16", known_of)
    threads = groups * known_of["subgroup"]
    layout = tiled(matrix, shape, threads, by_rows)
    assert_whole(layout, threads)
    # An element of a subgroup's first tile is where the device says.
    for lane in range(known_of["subgroup"]):
        for e in range(known_of["elements"]):
            row = lane // known_of["lane_div"] * known_of["lane_row"] + (known_of["rows"] >> 4 * e & 15)
            column = lane % known_of["lane_div"] * known_of["lane_col"] + (known_of["cols"] >> 4 * e & 15)
            own = [
                value_of(layout.thread_part(axis), tid=lane) + value_of(layout.register_part(axis, str(e)))
                for axis in (0, 1)
            ]
            assert own == [row, column]


def test_unknown_matrices_are_left_out():
    assert matrix_of("f16", {**HOPPER, "known": False}) is None
    assert matrix_of("f16", {**HOPPER, "rows": 0x88008801}) is None  # no permutation of bits


def module(lines):
    body = "\n".join(f"    {line}" for line in lines)
    head = "tt.func public @k(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {"
    return f"module {{\n  {head}\n{body}\n    tt.return\n  }}\n}}"


N = 64
BLOCK = f"tensor<{N}xi32>"


def random_program(draw):
    """Lines of TTIR over integers, and what each value is."""
    lines, values, constants = [], {}, {}
    lines.append(f"%r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : {BLOCK}")
    values["%r"] = np.arange(N, dtype=np.int64)
    for i in range(6):
        c = draw.choice([0, 1, 2, 3, 4, 8, 16, 24, 64, 96])
        lines.append(f"%c{i} = arith.constant dense<{c}> : {BLOCK}")
        values[f"%c{i}"] = constants[f"%c{i}"] = np.full(N, c, dtype=np.int64)
    masks = []
    for i in range(12):
        name, a, b = f"%v{i}", draw.choice(list(values)), draw.choice(list(values))
        op = draw.choice(["addi", "subi", "muli", "divsi", "remsi", "cmpi", "shli"])
        if op in ("divsi", "remsi", "shli"):
            b = draw.choice([c for c, v in constants.items() if v[0] > 0 and (op != "shli" or v[0] < 5)] or ["%c0"])
            if constants[b][0] == 0 or values[a].min() < 0:  # negative dividends: C rounds to zero, numpy down
                continue
        x, y = values[a], values[b]
        if op == "cmpi":
            word = draw.choice(["slt", "sge", "sgt", "sle", "eq"])
            lines.append(f"{name} = arith.cmpi {word}, {a}, {b} : {BLOCK}")
            compare = {"slt": np.less, "sge": np.greater_equal, "sgt": np.greater, "sle": np.less_equal, "eq": np.equal}
            masks.append((name, compare[word](x, y)))
            continue
        out = {
            "addi": lambda: x + y, "subi": lambda: x - y, "muli": lambda: x * y, "divsi": lambda: x // y,  # noqa: B023
            "remsi": lambda: x % y, "shli": lambda: x << y,  # noqa: B023
        }[op]()  # fmt: skip
        if np.abs(out).max() > 1 << 20:
            continue
        lines.append(f"{name} = arith.{op} {a}, {b} : {BLOCK}")
        values[name] = out
    return lines, values, masks


def assert_holds(facts, x):
    c, d, k = facts.contiguity[0], facts.divisibility[0], facts.constancy[0]
    runs = x.reshape(-1, c)
    assert (runs == runs[:, :1] + np.arange(c)).all(), f"contiguity {c}"
    assert (runs[:, 0] % min(d, 1 << 20) == 0).all(), f"divisibility {d}"
    assert (x.reshape(-1, k) == x.reshape(-1, k)[:, :1]).all(), f"constancy {k}"
    assert facts.constant is None or (x == facts.constant).all()


def test_facts_hold():
    """Of random programs, by what their values are."""
    draw = random.Random(random.random())
    for _ in range(60):
        lines, values, masks = random_program(draw)
        function = read(module(lines))
        facts = {value.name: fact for value, fact in known(function).items()}
        for name, x in values.items():
            assert_holds(facts[name], x)
        for name, x in masks:
            assert_holds(facts[name], x.astype(np.int64))


def test_facts_find_wide_loads():
    lines = [
        "%c = arith.constant 128 : i32",
        "%pid = tt.get_program_id x : i32",
        "%first = arith.muli %pid, %c : i32",
        "%r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>",
        "%s = tt.splat %first : i32 -> tensor<128xi32>",
        "%at = arith.addi %s, %r : tensor<128xi32>",
        "%base = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>",
        "%to = tt.addptr %base, %at : tensor<128x!tt.ptr<f32>>, tensor<128xi32>",
    ]
    facts = {value.name: fact for value, fact in known(read(module(lines))).items()}
    assert facts["%to"].contiguity == (128,) and facts["%to"].divisibility == (16,)


LOOP = """module {
  tt.func public @k(%x: !tt.ptr<f16>, %y: !tt.ptr<f16>, %o: !tt.ptr<f32>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %z = arith.constant dense<0.0> : tensor<16x16xf32>
    %c = arith.constant dense<256> : tensor<16x16xi32>
    %px = tt.splat %x : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %py = tt.splat %y : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<16x16x!tt.ptr<f32>>
    %r:2 = scf.for %i = %zero to %n step %one iter_args(%s = %z, %p = %px) -> (tensor<16x16xf32>, tensor<16x16x!tt.ptr<f16>>)  : i32 {
      %a = tt.load %p : tensor<16x16x!tt.ptr<f16>>
      %j = tt.splat %i : i32 -> tensor<16x16xi32>
      %q = tt.addptr %py, %j : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      %b = tt.load %q : tensor<16x16x!tt.ptr<f16>>
      STORE
      %d = tt.dot %a, %b, %s, inputPrecision = ieee : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
      %t = tt.addptr %p, %c : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi32>
      scf.yield %d, %t : tensor<16x16xf32>, tensor<16x16x!tt.ptr<f16>>
    }
    tt.store %po, %r#0 : tensor<16x16x!tt.ptr<f32>>
    tt.return
  }
}"""  # noqa: E501


@pytest.mark.parametrize("store,expected", [("", 2), ("tt.store %py, %a : tensor<16x16x!tt.ptr<f16>>", 1)])
def test_loads_of_products_are_begun_a_turn_ahead(store, expected):
    """But not of memory that the kernel writes."""
    function = read(LOOP.replace("STORE", store))
    assert prefetch(function, pointer_arguments(function))
    (loop,) = [op for op in function.entry.ops if op.name == "scf.for"]
    body = [op.name for op in loop.regions[0].ops]
    assert body.count("tt.load") == 2 and body.index("tt.dot") > max(
        i for i, name in enumerate(body) if name == "tt.load"
    )
    assert sum(op.name == "tt.load" for op in function.entry.ops) == expected
    assert len(loop.results) == 2 + expected == len(loop.regions[0].arguments) - 1
    defined = set(function.arguments)  # each value is there before it is used
    for op in function.walk():
        if op.name != "scf.yield":
            assert set(op.operands) <= defined, op.name
        defined |= {*op.results, *(a for region in op.regions for a in region.arguments)}


def test_what_cannot_be_read_is_refused():
    with pytest.raises(Unsupported, match="cannot be read"):
        read(module(["what is this"]))
    with pytest.raises(Unsupported, match="inlined"):
        read("module {\n  tt.func @a() {\n    tt.return\n  }\n  tt.func @b() {\n    tt.return\n  }\n}")


def test_a_device_is_a_plain_value():
    assert Device() == Device() and log2(64) == 6
