"""TORCH_AULE_LIMITS: a device that has less than the one that is there, and is told to those who plan and allocate."""

import re

import pytest
import torch

from helpers import check_program, check_python, limited, run_python
from torch_aule import _C

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
OWN = {
    "shared_bytes": 48 * KIB,
    "max_workgroup_invocations": 1024,
    "max_workgroup_size": (1024, 1024, 64),
    "max_group_count": (2**31 - 1, 65535, 65535),
    "max_push_constant_bytes": 256,
    "max_allocation_bytes": 4 * GIB,
    "max_buffer_bytes": 1024 * GIB,
    "device_heap_bytes": 80 * GIB,
    "mapped_heap_bytes": 80 * GIB,
    "min_subgroup_size": 16,
    "max_subgroup_size": 32,
}
LEAST = {
    "shared_bytes": 16 * KIB,
    "max_workgroup_invocations": 128,
    "max_workgroup_size": 128,
    "max_group_count": 65535,
    "max_push_constant_bytes": 128,
    "max_allocation_bytes": 32 * MIB,
    "max_buffer_bytes": 32 * MIB,
    "device_heap_bytes": 64 * MIB,
    "mapped_heap_bytes": 4 * MIB,
    "min_subgroup_size": 1,
    "max_subgroup_size": 32,
}
SETS = {one["name"]: one for one in _C.sets_of_limits()}


def largest(value):
    return max(value) if isinstance(value, tuple) else value


def lowered(text, **own):
    """The limits that the text makes of `OWN`, which must fit them."""
    limits, refused, ignored = _C.limited(text, OWN | own)
    assert not refused and not ignored
    return limits


def test_every_limit_is_in_the_tables():
    assert set(OWN) == set(LEAST) == set(_C.device_limits(0))
    assert lowered("") == OWN


@pytest.mark.parametrize("name", LEAST)
def test_a_limit_falls_to_its_least_and_no_further(name):
    after = lowered(f"{name}={LEAST[name]}")
    assert largest(after[name]) == LEAST[name]
    rest = {other for other in OWN if after[other] != OWN[other]}
    assert rest <= {name, "max_workgroup_invocations"}  # a workgroup of ours is a row, so its length bounds them
    limits, refused, ignored = _C.limited(f"{name}={LEAST[name] - 1}", OWN)
    assert limits == OWN and not ignored
    assert refused.startswith(f"{name}={LEAST[name] - 1} is ") and ("below" in refused or "power of two" in refused)


@pytest.mark.parametrize("name", [name for name in OWN if name != "max_subgroup_size"])
@pytest.mark.parametrize("times", [0, 2])
def test_nothing_rises(name, times):
    value = times * largest(OWN[name])
    limits, refused, ignored = _C.limited(f"{name}={value}", OWN)
    assert limits == OWN and not ignored
    own = largest(OWN[name])
    assert refused.startswith(f"{name}={value} is ")
    assert f"above the device's own, {own}" in refused if times else "below" in refused or "no power of two" in refused


def test_the_range_of_subgroups_only_widens():
    """The driver goes on choosing the size, so that a narrower range would be one that it does not keep."""
    after = lowered("min_subgroup_size=4,max_subgroup_size=128")
    assert (after["min_subgroup_size"], after["max_subgroup_size"]) == (4, 128)
    for text, why in (
        ("max_subgroup_size=16", "below the device's own, 32"),
        ("max_subgroup_size=256", "above the largest subgroup of any device"),
        ("max_subgroup_size=48", "no power of two"),
        ("min_subgroup_size=12", "no power of two"),
    ):
        assert why in _C.limited(text, OWN)[1]


def test_units_axes_and_spaces():
    after = lowered(" shared_bytes=32KiB , max_allocation_bytes=64MiB,max_buffer_bytes=2GiB")
    assert after["shared_bytes"] == 32 * KIB
    assert after["max_allocation_bytes"] == 64 * MIB and after["max_buffer_bytes"] == 2 * GIB
    assert lowered("max_workgroup_size=256,512,64")["max_workgroup_size"] == (256, 512, 64)
    assert lowered("max_workgroup_size=256")["max_workgroup_size"] == (256, 256, 64)  # a ceiling of each axis
    assert lowered("max_workgroup_size=256")["max_workgroup_invocations"] == 256
    assert lowered("max_group_count=70000,65535,65535")["max_group_count"] == (70000, 65535, 65535)
    refused = _C.limited("max_workgroup_size=256,512,128", OWN)[1]
    assert refused == "max_workgroup_size=256,512,128 is above the device's own, 64"
    assert lowered("shared_bytes=32KiB,shared_bytes=20KiB")["shared_bytes"] == 20 * KIB  # the last one counts
    # A driver that does not tell how large a buffer may be.
    assert lowered("max_buffer_bytes=2GiB", max_buffer_bytes=0)["max_buffer_bytes"] == 2 * GIB


@pytest.mark.parametrize(
    "text",
    ["shared_bytes=", "shared_bytes=many", "shared_bytes=-5", "shared_bytes=1TiB", "shared_bytes=99999999999999999999",
     "shared_bytes=17179869185GiB", "shared_bytes=16384,16384", "max_group_count=65535,65535", "max_loop_iterations=-1",
     "max_loop_iterations=1,2", "shared_bytes=16384,16385x"],
)  # fmt: skip
def test_what_has_no_meaning_is_ignored(text):
    limits, refused, ignored = _C.limited(text, OWN)
    assert limits == OWN and not refused and len(ignored) == 1 and "is ignored" in ignored[0]


def test_an_unknown_name_is_ignored():
    limits, refused, ignored = _C.limited("wavefronts=7,no-such-device,shared_bytes=16KiB", OWN)
    assert limits == OWN | {"shared_bytes": 16 * KIB} and not refused
    assert ignored == [f"'{name}' is ignored, no limit and no set has this name" for name in
                       ("wavefronts", "no-such-device")]  # fmt: skip


def test_the_sets():
    names = {"amd-windows", "radv", "arc-windows", "iris", "apple-moltenvk", "apple-kosmickrisp"}
    assert set(SETS) == names
    known = {name for name, _ in _C.capabilities()}
    for name, one in SETS.items():
        assert not _C.limited(one["limits"], OWN)[2] and set(one["without"]) <= known
        assert one["active"] == (name in limited("")["TORCH_AULE_LIMITS"].split(","))
        after = lowered(name)
        for limit, least in LEAST.items():
            assert largest(after[limit]) >= least
            assert largest(after[limit]) <= largest(OWN[limit]) or limit == "max_subgroup_size"


def test_a_set_is_a_ceiling_and_what_is_given_stands_over_it():
    own = {"shared_bytes": 32 * KIB, "min_subgroup_size": 8, "max_subgroup_size": 8}
    after = lowered("radv", **own)  # which has 64 KiB, and subgroups of 32 at least
    assert (after["shared_bytes"], after["min_subgroup_size"], after["max_subgroup_size"]) == (32 * KIB, 8, 64)
    assert after["max_buffer_bytes"] == after["max_allocation_bytes"] == 4 * GIB
    both = lowered("arc-windows,amd-windows")
    assert both["max_buffer_bytes"] == 2 * GIB and both["max_group_count"] == (65536, 65535, 65535)
    assert both["shared_bytes"] == 32 * KIB and both["max_subgroup_size"] == 64 and both["min_subgroup_size"] == 8
    for text in ("amd-windows,max_buffer_bytes=3GiB", "max_buffer_bytes=3GiB,amd-windows"):
        assert lowered(text)["max_buffer_bytes"] == 3 * GIB
    assert lowered("max_workgroup_size=512,512,64,amd-windows")["max_workgroup_size"] == (512, 512, 64)


PROPERTIES = """
import torch, torch_aule
from torch_aule import _C
print(_C.device_limits(0))
p = torch.aule.get_device_properties()
print(p.max_shared_bytes, p.max_workgroup_invocations, p.max_buffer_bytes, p.total_memory, p.memory_budget, p.kind)
"""


def test_a_process_with_limits(device):
    own = _C.device_limits(0)
    text = "shared_bytes=16KiB,max_workgroup_size=256,max_buffer_bytes=64MiB,device_heap_bytes=96MiB"
    text += f",max_subgroup_size={2 * own['max_subgroup_size']}"
    shown = check_python(PROPERTIES, **limited(text)).splitlines()
    after = eval(shown[0])
    assert after == own | {
        "shared_bytes": 16 * KIB,
        "max_workgroup_size": tuple(min(256, n) for n in own["max_workgroup_size"]),
        "max_workgroup_invocations": 256,
        "max_buffer_bytes": 64 * MIB,
        "device_heap_bytes": 96 * MIB,
        "max_subgroup_size": 2 * own["max_subgroup_size"],
    }
    kind = torch.aule.get_device_properties().kind
    assert shown[1] == f"{16 * KIB} 256 {64 * MIB} {96 * MIB} False {kind}"


def test_a_process_whose_limits_do_not_fit(device):
    """The device is not there, and the reason names the limit. What has no meaning is a warning."""
    text = f"shared_bytes={_C.device_limits(0)['shared_bytes'] + 4},max_buffer_bytes=0,no-such-device"
    done = run_python("import torch_aule; print(torch_aule._C.unavailable_reason())", **limited(text))
    assert done.returncode == 0, done.stderr
    above = r"shared_bytes=\d+ is above the device's own, \d+"
    assert re.search(f"TORCH_AULE_LIMITS does not fit .*: {above}; max_buffer_bytes=0 is below", done.stdout)
    assert "[aule] TORCH_AULE_LIMITS: 'no-such-device' is ignored" in done.stderr


def test_what_plans_and_allocates_obeys(device):
    # Some kernels for GPUs have workgroups of 256, in whatever plan: GPUs have at least that.
    invocations = 128 if torch.aule.get_device_properties().kind == "cpu" else 256
    check_program("limits_obeyed", **limited("max_buffer_bytes=67000000,max_allocation_bytes=67000000,"
                                             f"device_heap_bytes=256MiB,max_workgroup_invocations={invocations},"
                                             "max_push_constant_bytes=128"))  # fmt: skip


def test_a_model_larger_than_one_buffer():
    check_program("limits_model", **limited("amd-windows,max_buffer_bytes=64MiB,max_allocation_bytes=64MiB"))


@pytest.mark.parametrize("name", ["amd-windows", "apple-kosmickrisp"])
def test_a_process_that_pretends_another_device(device, name):
    code = """
import torch_aule
from torch_aule import _C
p = _C.device_properties(0)
active = [one["name"] for one in _C.sets_of_limits() if one["active"]]
print(active, p["kind"], [name for name, _ in _C.capabilities() if p[name]])
"""
    shown = check_python(code, TORCH_AULE_LIMITS=name)
    assert shown.startswith(f"['{name}'] ") and " cpu [" not in shown  # nor the kernels for processors
    assert not [lack for lack in SETS[name]["without"] if f"'{lack}'" in shown]
