"""Attention's planner, a function of values: its plans on made-up devices against a table. Needs no device."""

import re
from pathlib import Path

import pytest

import plan_problems
from plan_problems import DEVICES, Planner, problem, text_of
from torch_aule import _C

TABLE = [
    line.split(" | ")
    for line in (Path(__file__).parent / "attention_plans.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("device", DEVICES)
def test_plans_of_the_table(device):
    expected = {name: text for on, name, text in TABLE if on == device}
    actual = {name: plan for section in plan_problems.sections(device) for name, plan in section.items()}
    assert len(actual) > 50
    grid = [name for name in expected if name.startswith("grid of")]
    assert set(expected) - set(actual) == set(grid)
    wrong = [f"{name}\n  {text}\n  {expected.get(name)}" for name, text in actual.items() if expected.get(name) != text]
    assert not wrong, f"{len(wrong)} plans are others, now and in the table:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("device", DEVICES)
def test_plans_of_the_whole_grid(device):
    expected = next((name, text) for on, name, text in TABLE if on == device and name.startswith("grid of"))
    assert plan_problems.grid_of(device) == expected


def test_caches_in_8_bits():
    """Split-KV, also where keys are few, or nothing. A lane has 16 columns; of several rows these fill registers."""
    plan, f32 = Planner("h200"), {"dims": (128, 128), "int8": 1, "ragged": 1}
    for lengths, locals in (((1, 4096), (512, 256)), ((1, 40), (128, 128))):
        one, four = (plan(*problem("forward", "bf16", lengths, heads=heads, **f32)) for heads in ((8, 8), (32, 8)))
        assert one.startswith(f"splitkv local={locals[0]} lanes=8 rows=1") and "keys_per_lane=4" in one
        assert four.startswith(f"splitkv local={locals[1]} lanes=8 rows=4") and "keys_per_lane=4" in four
    few = problem("forward", "bf16", (1, 4096), heads=(32, 8), **f32)
    assert plan(*few, attention_variant="splitkv") == plan(*few)
    assert plan(*few, attention_variant="coopmat") == plan(*few, attention_variant="splitkv_shared") == "none"
    assert plan(*problem("forward", "bf16", (5, 4096), heads=(32, 8), **f32)) == "none"
    assert plan(*problem("forward", "bf16", (1, 4096), heads=(8, 8), **f32 | {"dims": (288, 288)})) == "none"
    assert Planner("h200", max_push_constant_bytes=128)(*few) == "none"


def test_choice_of_a_ds_workspace():
    """By the device's memory, and by what was measured of its architecture."""

    def total(gib, lengths, dim, heads=(16, 16), known=None, **changed):
        plan = Planner("h200", device_heap_bytes=gib * plan_problems.GIB, **changed)
        which, values = problem("ds_workspace", lengths=(lengths, lengths), dims=(dim, dim), heads=heads)
        text = plan(which, values | (known or {}))
        if text == "none":
            return 0
        heads, head_bytes, halves = (int(re.search(rf"\b{name}=(\d+)", text)[1]) for name in words)
        return heads * head_bytes * halves

    words = ("heads", "head_bytes", "halves")
    assert total(139, 1024, 128) == 2 * 16 * 2 * 1024**2  # all heads at once
    assert total(139, 16384, 128) == 2 * plan_problems.GIB > total(64, 16384, 128) == plan_problems.GIB
    assert total(16, 8192, 128) == 256 << 20  # in one part: two would leave half of 132 multiprocessors idle
    assert total(8, 8192, 128) == 0 < total(8, 4096, 128)  # and one leaves it here
    assert total(8, 8192, 128, multiprocessors=48) == 128 << 20
    assert total(139, 8192, 80) == 0 < total(139, 8192, 96)
    ada = {"name": "NVIDIA GeForce RTX 4090", "device_id": 0x2684, "multiprocessors": 128}
    assert total(24, 2048, 128, **ada) == 0 < total(24, 2048, 192, **ada) <= 384 << 20
    assert total(139, 1024, 128, known={"failed_bytes": 16 << 20}) == 0  # 8 MiB: 4 of 32 heads, 32 workgroups


def test_architectures():
    """From what drivers say; parts of a vendor that are not listed are the vendor's."""
    names = {
        ("NVIDIA H200", 0x10DE, 0x2335): "hopper", ("NVIDIA H100 80GB HBM3", 0x10DE, 0x2330): "hopper",
        ("NVIDIA A100-SXM4-80GB", 0x10DE, 0x20B2): "ampere", ("NVIDIA GeForce RTX 4090", 0x10DE, 0x2684): "ada",
        ("NVIDIA GeForce RTX 5090", 0x10DE, 0x2B85): "blackwell", ("NVIDIA B200", 0x10DE, 0x2901): "blackwell",
        ("Tesla T4", 0x10DE, 0x1EB8): "turing", ("Tesla V100-SXM2-16GB", 0x10DE, 0x1DB1): "nvidia",
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", 0x1002, 0x744C): "rdna3",
        ("AMD Radeon 890M Graphics (RADV STRIX1)", 0x1002, 0x150E): "rdna3",
        ("AMD Radeon Graphics (RADV GFX1201)", 0x1002, 0x7550): "rdna4",
        ("AMD Radeon RX 6800 (RADV NAVI21)", 0x1002, 0x73BF): "rdna2",
        ("AMD Radeon Pro VII (RADV VEGA20)", 0x1002, 0x66A1): "gcn",
        ("AMD Instinct MI300X (RADV GFX942)", 0x1002, 0x74A1): "cdna3", ("AMD Something", 0x1002, 1): "amd",
        ("Intel(R) Arc(tm) A770 Graphics (DG2)", 0x8086, 0x56A0): "arc",
        ("Apple M2 Pro", 0x106B, 1): "apple", ("Adreno (TM) 750", 0x5143, 1): "adreno",
        ("llvmpipe (LLVM 15.0.6, 256 bits)", 0x10005, 0): "lavapipe", ("A new chip", 0x1234, 1): "unknown",
    }  # fmt: skip
    found = {
        (name, vendor, part): _C.device_profile(
            DEVICES["h200"] | {"name": name, "vendor_id": vendor, "device_id": part}
        ).architecture
        for name, vendor, part in names
    }
    assert found == names
    plain = DEVICES["arc"] | {"name": "Intel(R) UHD Graphics 770 (ADL-S GT1)", "capabilities": ()}
    assert _C.device_profile(plain).architecture == "intel"


def test_a_guess_is_marked():
    profiles = {name: _C.device_profile(values) for name, values in DEVICES.items()}
    assert (profiles["h200"].multiprocessors, profiles["h200"].multiprocessors_guessed) == (132, False)
    assert (profiles["arc"].multiprocessors, profiles["arc"].multiprocessors_guessed) == (64, True)


@pytest.mark.parametrize("device", DEVICES)
def test_every_plan_fits_or_there_is_none(device):
    """With the least shared memory that Vulkan allows there is a plan for every problem; with none there is no plan."""
    least = Planner(device, shared_bytes=16384)
    assert not [text_of(*p) for p in plan_problems.shown() if least(*p) == "none"]
    nothing = Planner(device, shared_bytes=64, capabilities=())
    assert {nothing(*p) for p in plan_problems.shown()} == {"none"}


@pytest.mark.parametrize("device", DEVICES)
def test_workgroups_are_not_larger_than_the_device_s(device):
    """128 invocations are the least that Vulkan allows; 192 are no power of two."""
    for most in (128, 192):
        planner = Planner(device, max_workgroup_invocations=most)
        problems = [({}, p) for p in plan_problems.shown()] + list(plan_problems.overridden())
        plans = [planner(which, values, **override) for override, (which, values) in problems]
        sizes = [(int(n), plan) for plan in plans for n in re.findall(r"local=(\d+)", plan)]
        assert len(sizes) > 60 and max(sizes)[0] <= most, max(sizes)
        combine = {n for plan in plans for n in re.findall(r"combine_local=(\d+)", plan)}
        assert combine == ({"64"} if DEVICES[device]["kind"] == "cpu" else {"128"})


def test_heads_that_are_too_wide_have_no_plan():
    assert Planner("h200")(*problem(dims=(513, 64))) == "none"
    assert Planner("h200")(*problem(dims=(64, 513))) == "none"


def test_overrides_refuse_nonsense():
    settings = _C.Overrides()
    with pytest.raises(ValueError, match="there is no override named 'attention_warps'"):
        settings.set("attention_warps", "2")
    for name, text in (("attention_variant", "matrix"), ("attention_shape", "4,x"), ("attention_workspace", "much")):
        with pytest.raises(ValueError, match=name):
            settings.set(name, text)
