"""Small blocks in memory that the host sees (csrc/vulkan/memory.h): as on GPUs whose memory is mapped, in whole or as
a window, on those where it is not, and on devices of unified memory.

A software device, whose memory is all mapped, stands for them.
"""

import json

import pytest
import torch

from helpers import check_program, limited, without

MODES = {
    "unified": {},
    "mapped": without("unified_memory"),
    "window": without("unified_memory") | limited("mapped_heap_bytes=8MiB"),
    "unmapped": without("unified_memory", "mapped_memory"),
}
pytestmark = pytest.mark.skipif(
    not torch.aule.get_device_properties().unified_memory, reason="the modes begin with unified memory"
)


@pytest.mark.parametrize("mode", MODES)
def test_small_values(mode):
    shown = [line for line in check_program("mapped_values", mode, **MODES[mode]).splitlines() if line[:1] == "["]
    stats, segments = json.loads(shown[0])
    assert stats["allocated_bytes.small_pool.current"] == 512 + 512 + 1536
    assert stats["segment.small_pool.current"] == stats["segment.small_pool.peak"] == 2
    assert stats["segment.large_pool.current"] == 1
    assert [(total, used, kind) for total, used, kind, _ in segments] == [
        (2 << 20, 0, "small"), (2 << 20, 2560, "small"), (20 << 20, 14 << 20, "large"),
    ]  # fmt: skip
    assert [size for size, state in segments[1][3] if state == "active_allocated"] == [512, 512, 1536]
