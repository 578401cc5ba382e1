"""Made-up devices, and the attention problems whose plans are compared with a table (test_attention_plan.py).

    python test/plans/plan_problems.py > test/plans/attention_plans.txt    after a change that is meant to change plans

The devices are what drivers say of real ones: NVIDIA's of an H200, RADV of an RDNA3, ANV of an Arc, and lavapipe of
Mesa 22.3 and 26.2. A problem is a dict of numbers under the names of ``AttentionProblem``.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The tables' scripts run from anywhere.
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "support"), str(ROOT / "tools" / "chips")]

import matrix_probes  # noqa: E402

from torch_aule import _C  # noqa: E402
from torch_aule.backend.overrides import value_text  # noqa: E402

KIB = 1024
SUBGROUPS = ("subgroup_basic", "subgroup_arithmetic", "subgroup_shuffle", "subgroup_ballot")
COMMON = ("float16", "int8", "int16", "int_dot_product", "float32_atomic_add", "shared_float32_atomic_add", *SUBGROUPS)


def device(kind, name, ids, subgroups, shared, push, groups, multiprocessors, *capabilities):
    size, least, most = subgroups
    return {
        "kind": kind, "name": name, "vendor_id": ids[0], "device_id": ids[1], "subgroup_size": size,
        "min_subgroup_size": least, "max_subgroup_size": most, "shared_bytes": shared * KIB,
        "max_push_constant_bytes": push, "max_workgroup_invocations": 1024, "max_group_count": groups,
        "multiprocessors": multiprocessors, "capabilities": (*COMMON, *capabilities),
    }  # fmt: skip


LAVAPIPE = ("llvmpipe (LLVM 19.1, 256 bits)", (0x10005, 0), (8, 8, 8), 32)
MATRICES = ("cooperative_matrix", "bfloat16")
#: Profiles; multiprocessors of 0 are those that no extension tells.
DEVICES = {
    "h200": device("discrete", "NVIDIA H200", (0x10DE, 0x2335), (32, 32, 32), 48, 256, (2**31 - 1, 65535, 65535), 132,
                   "float64", *MATRICES),
    "rdna3": device("discrete", "AMD Radeon RX 7900 XTX (RADV NAVI31)", (0x1002, 0x744C), (64, 32, 64), 64, 256,
                    (2**32 - 1, 65535, 65535), 96, "float64", *MATRICES),
    "arc": device("discrete", "Intel(R) Arc(tm) B580 Graphics (BMG G21)", (0x8086, 0xE20B), (32, 16, 32), 64, 256,
                  (65535, 65535, 65535), 0, *MATRICES),
    "lavapipe": device("cpu", *LAVAPIPE, 128, (65535, 65535, 65535), 0, "float64"),
    "lavapipe_matrices": device("cpu", *LAVAPIPE, 256, (65535, 65535, 65535), 0, "float64", *MATRICES),
    # The same with TORCH_AULE_DISABLE=cpu_kernels.
    "lavapipe_as_gpu": device("other", *LAVAPIPE, 256, (65535, 65535, 65535), 0, "float64", *MATRICES),
}  # fmt: skip
GIB = 1 << 30
for _name, _memory in (("h200", 139), ("rdna3", 24), ("arc", 12)):
    DEVICES[_name]["device_heap_bytes"] = _memory * GIB
#: What a device's matrix units answer to the probe, by dtype; or the little that is known without an answer.
OPAQUE = {"usable": True, "m": 8, "n": 16, "subgroup": 16}
LAYOUTS = {
    "h200": {"f16": (matrix_probes.nvidia(), 16, 16, 32, 32), "bf16": (matrix_probes.nvidia(True), 16, 16, 32, 32)},
    "rdna3": {"f16": (matrix_probes.rdna3(64), 16, 16, 32, 64), "bf16": OPAQUE | {"m": 16, "subgroup": 64}},
    "arc": {"f16": OPAQUE, "bf16": OPAQUE},
    "lavapipe": {},
    "lavapipe_matrices": {"f16": (matrix_probes.lavapipe(), 8, 8, 8, 8)},
    "lavapipe_as_gpu": {"f16": (matrix_probes.lavapipe(), 8, 8, 8, 8)},
}
PASSES = ("forward", "dq", "dkdv")
LENGTHS = ((1, 1), (1, 200), (1, 8192), (4, 1024), (7, 50), (16, 16), (33, 77), (64, 64), (100, 300), (1024, 1024),
           (8192, 8192))  # fmt: skip
DIMS = (8, 16, 32, 40, 64, 72, 80, 96, 100, 128, 160, 192, 256, 257, 512)


def problem(which="forward", dtype="f16", lengths=(1024, 1024), dims=(64, 64), heads=(16, 16), batch=2, **flags):
    values = {
        "dtype": dtype, "batch": batch, "heads": heads[0], "kv_heads": heads[1], "q_len": lengths[0],
        "k_len": lengths[1], "head_dim": dims[0], "v_dim": dims[1], "masked": 0, "ragged": 0, "unmodified_scores": 1,
        "fits_i32": 1, "vec16b": 1, "int8": 0, "num_splits": 0, "block_q": 0, "block_k": 0, "float_bias": 0,
    }  # fmt: skip
    assert set(flags) <= set(values)
    return which, values | flags


def grid():
    """Every combination that a digest speaks for."""
    scores = ({}, {"masked": 1}, {"unmodified_scores": 0})
    for which, dtype, lengths, dim, heads, flags in itertools.product(
        PASSES, ("f16", "bf16", "f32"), LENGTHS, DIMS, ((16, 16), (16, 4), (3, 1)), scores
    ):
        yield problem(which, dtype, lengths, (dim, dim), heads, **flags)
    for which, dtype, dims in itertools.product(PASSES, ("f16", "f32"), ((64, 128), (128, 64), (192, 128), (24, 512))):
        yield problem(which, dtype, dims=dims)
    for lengths, batch, flags in itertools.product(
        ((1, 512), (1, 100000), (2, 4096)), (1, 64, 70000),
        ({"ragged": 1}, {"num_splits": 1}, {"num_splits": 3}, {"vec16b": 0}, {"fits_i32": 0},
         {"num_splits": 3, "vec16b": 0}),
    ):  # fmt: skip
        yield problem(lengths=lengths, batch=batch, heads=(32, 8), dims=(128, 128), **flags)


def shown():
    """Problems whose plans stand in the table as text."""
    for which, dtype, dim in itertools.product(PASSES, ("f16", "f32"), (32, 64, 80, 128, 192, 256, 512)):
        yield problem(which, dtype, dims=(dim, dim))
    for which, dim in itertools.product(PASSES, (64, 128)):
        yield problem(which, "bf16", dims=(dim, dim), masked=1)
        yield problem(which, "f16", dims=(dim, dim), unmodified_scores=0)
        yield problem(which, "f16", (33, 77), (dim, dim))
    for lengths in ((1, 40), (1, 300), (1, 16384), (4, 4096), (16, 200)):
        yield problem("forward", "f16", lengths, (128, 128), (32, 8), 1)
    yield problem("forward", "f32", (1, 16384), (64, 64), (32, 8), 1, vec16b=0)
    yield problem("forward", "f16", (1, 4096), (128, 128), (32, 8), 70000, ragged=1)
    yield problem("forward", "f16", (1, 4096), (128, 128), (32, 8), 4, num_splits=1)
    # Masks of blocks that tiles are whole in, or not; long rows of them; few queries; a soft cap.
    for which, dim in itertools.product(PASSES, (64, 128)):
        for block_q, block_k in ((128, 128), (64, 128), (100, 30)):
            yield problem(which, dims=(dim, dim), block_q=block_q, block_k=block_k)
        yield problem(which, lengths=(8192, 8192), dims=(dim, dim), block_q=256, block_k=256, unmodified_scores=0)
        yield problem(which, dims=(dim, dim), float_bias=1, unmodified_scores=0)
    yield problem("forward", lengths=(1024, 300000), block_q=128, block_k=128)
    yield problem("forward", lengths=(1, 4096), block_q=1, block_k=64)


#: Settings that replace the planner's choice, on a few problems and devices.
OVERRIDDEN_DEVICES = ("h200", "arc", "lavapipe_as_gpu")
OVERRIDES = (
    *({"attention_variant": family} for family in _C.attention_families()),
    {"attention_shape": "4,1,32,1,2,1,2", "attention_shape_dq": "8,1,16,1,1", "attention_shape_dkdv": "4,1,16,1,1"},
    {"attention_shape": "4,1,128,1,2", "attention_role_split": "2"},
    {"attention_variant": "splitkv", "attention_shape": "64,2"},
    {"attention_tiles": "64,4,4,4,8,1,1,1,1,64", "attention_tiles_dq": "64,8,4,4,16,2,2,1,4",
     "attention_tiles_dkdv": "64,7,4,4,16,2,2,1,4", "attention_variant": "simt"},
    {"attention_acc_is_a_operand": "0"},
)  # fmt: skip


def overridden():
    for override in OVERRIDES:
        for which, dim in itertools.product(PASSES, (64, 192)):
            yield override, problem(which, "f16", dims=(dim, dim))
        yield override, problem("forward", "f32", dims=(64, 64))
        yield override, problem("forward", "f16", (1, 4096), (128, 128), (32, 8))


#: What ds_workspace's plan knows beside the problem.
WORKSPACE_OF = {"is_lower_triangle": 0, "failed_bytes": 0}


def ds_workspaces():
    """Backward problems, what else decides whether dS goes through a workspace, and the override in MiB, if any."""
    for dim, mib in itertools.product((32, 64, 80, 128, 192, 256), ("8", "1024")):
        yield mib, problem("ds_workspace", dims=(dim, dim)), {}
        causal = problem("ds_workspace", "bf16", dims=(dim, dim), masked=1)
        yield mib, causal, {"is_lower_triangle": 1}
    for mib in ("0", "0.2", "64"):
        yield mib, problem("ds_workspace", lengths=(333, 777), heads=(12, 4)), {}
    yield "1024", problem("ds_workspace"), {"failed_bytes": 1 << 24}
    yield "100000", problem("ds_workspace", lengths=(50000, 50000), heads=(1, 1), batch=1), {}
    yield "64", problem("ds_workspace", "f32"), {}
    yield "64", problem("ds_workspace", ragged=1), {}
    for lengths, dim in itertools.product((1024, 8192, 32768), (64, 80, 128, 256)):  # the planner decides
        yield "", problem("ds_workspace", lengths=(lengths, lengths), dims=(dim, dim), heads=(32, 8)), {}
        causal = problem("ds_workspace", lengths=(lengths, lengths), dims=(dim, dim), masked=1)
        yield "", causal, {"is_lower_triangle": 1}
    # Two halves of the memory would have too few workgroups of a triangle.
    grouped = problem("ds_workspace", lengths=(8192, 8192), dims=(128, 128), heads=(32, 8), batch=1, masked=1)
    yield "", grouped, {"is_lower_triangle": 1}
    yield "", problem("ds_workspace", dims=(128, 128)), {"failed_bytes": 1 << 24}


#: What the planner of blocks knows beside the problem.
BLOCKS_OF = {"reach": 1 << 30, "has_dropout": 0}
LIMITED_DEVICES = ("lavapipe", "lavapipe_as_gpu")
LOOP_LIMIT = {"max_loop_iterations": 65519}


def blocks():
    """Problems that a device with limited loops serves in blocks, or in one."""
    for lengths, heads in itertools.product(((100, 100), (3, 70000), (70000, 3), (70000, 70000)), ((1, 1), (32, 2))):
        yield problem("blocks", "f32", lengths, (64, 64), heads), {}
        yield problem("blocks", "f32", lengths, (257, 257), heads), {}
    for reach, dim in itertools.product((100, 20000, 40000), (64, 257)):
        yield problem("blocks", "f32", (70000, 70000), (dim, dim), masked=1), {"reach": reach}
        yield problem("blocks", "f32", (70000, 70000), (dim, dim), masked=1, ragged=1), {"reach": reach}
    yield problem("blocks", "f32", (3, 32000)), {"has_dropout": 1}
    yield problem("blocks", "f32", (100, 100), heads=(100000, 1)), {}


def layout_of(device, dtype):
    """What the planner knows of the device's matrices for this dtype: from a probe's answer, or the little without."""
    known = LAYOUTS[device].get(dtype, {})
    return known if isinstance(known, dict) else _C.read_matrix_probe(*known)


class Planner:
    """Plans on one device, as text."""

    def __init__(self, device, **changed):
        self.profile = _C.device_profile(DEVICES[device] | changed)
        self.layouts = {dtype: layout_of(device, dtype) for dtype in ("f16", "bf16", "f32")}

    def __call__(self, which, values, **overrides):
        settings = _C.Overrides()
        for name, value in overrides.items():
            settings.set(name, value_text(value))
        layout = self.layouts[values["dtype"]]
        if which == "ds_workspace":
            return _C.plan_ds_workspace(self.profile, values, layout, settings)
        if which == "blocks":
            return _C.plan_attention_blocks(self.profile, values, layout, settings)
        return _C.plan_attention(self.profile, which, values, layout, settings)


def words_of(values, usual):
    return [f"{name}={values[name]}" for name in usual if values.get(name, usual[name]) != usual[name]]


def sections(device) -> list[dict[str, str]]:
    """Every plan of the table on this device but the grid's, by topic."""
    plan, limited = Planner(device), Planner(device, **LOOP_LIMIT)
    replaced, workspaces, walked = {}, {}, {}
    if device in OVERRIDDEN_DEVICES:
        for overrides, p in overridden():
            name = " ".join([text_of(*p), *(f"{key}={value}" for key, value in overrides.items())])
            replaced[name] = plan(*p, **overrides)
    for mib, (which, values), known in ds_workspaces():
        settings = {"attention_workspace": mib} if mib else {}
        words = [f"{name}={value}" for name, value in settings.items()]
        name = " ".join([text_of(which, values), *words_of(known, WORKSPACE_OF), *words])
        workspaces[name] = plan(which, values | known, **settings)
    if device in LIMITED_DEVICES:
        for (which, values), known in blocks():
            walked[" ".join([text_of(which, values), *words_of(known, BLOCKS_OF)])] = limited(which, values | known)
    return [{text_of(*p): plan(*p) for p in shown()}, replaced, workspaces, walked]


def grid_of(device) -> tuple[str, str]:
    plan = Planner(device)
    plans = [plan(*p) for p in grid()]
    return f"grid of {len(plans)}", "sha256 " + hashlib.sha256("\n".join(plans).encode()).hexdigest()


def text_of(which, values) -> str:
    """Such as ``forward f16 B2 H16/4 Lq1 Lk4096 D128 masked``; what is as usual is left out."""
    v = values
    heads = f"H{v['heads']}" + f"/{v['kv_heads']}" * (v["heads"] != v["kv_heads"])
    dims = f"D{v['head_dim']}" + f"/{v['v_dim']}" * (v["head_dim"] != v["v_dim"])
    words = [which, v["dtype"], f"B{v['batch']}", heads, f"Lq{v['q_len']}", f"Lk{v['k_len']}", dims]
    usual = {"masked": 0, "ragged": 0, "unmodified_scores": 1, "fits_i32": 1, "vec16b": 1, "num_splits": 0}
    usual |= {"block_q": 0, "block_k": 0, "float_bias": 0}
    return " ".join(words + words_of(v, usual))


HEAD = """\
# Plans of attention on made-up devices (plan_problems.py, which writes this table): device | problem | plan.
# test_attention_plan.py compares them. A digest speaks for the plans of the whole grid."""

if __name__ == "__main__":
    print(HEAD)
    for one in DEVICES:
        print(one, *grid_of(one), sep=" | ")
    for topic in zip(*map(sections, DEVICES)):
        for one, plans in zip(DEVICES, topic):
            for row in plans.items():
                print(one, *row, sep=" | ")
