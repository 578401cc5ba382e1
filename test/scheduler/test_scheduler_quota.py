"""Quotas of streams: the allocation above one raises, and other streams go on."""

import threading

import pytest
import torch

from torch_aule import _C

pytestmark = pytest.mark.validated


def test_an_allocation_above_the_quota_raises_and_others_go_on(device):
    stream = torch.Stream(device="aule:0")
    before = _C.stream_bytes(0, stream.stream_id)
    _C.set_stream_quota(0, [stream.stream_id], before + 4096, "context 'small'")
    try:
        with torch.aule.stream(stream):
            kept = torch.ones(512, device=device)
            assert _C.stream_bytes(0, stream.stream_id) == before + 2048
            with pytest.raises(torch.OutOfMemoryError, match="context 'small', whose quota"):
                torch.empty(1024, device=device)
            del kept
            assert _C.stream_bytes(0, stream.stream_id) == before
            assert torch.ones(512, device=device).sum().item() == 512  # this stream goes on too, below its quota
        assert torch.ones(1 << 16, device=device).sum().item() == 1 << 16
    finally:
        _C.clear_stream_quota(0, stream.stream_id)
    with torch.aule.stream(stream):
        torch.empty(1 << 16, device=device)


def test_threads_of_one_stream_never_pass_its_quota_together(device):
    """An allocation waits for the device without the lock here: the cache has to give a segment back first."""
    torch.aule.empty_cache()
    stream, size = torch.Stream(device="aule:0"), 24 << 20
    other = torch.Stream(device="aule:0")
    total = torch.aule.mem_get_info()[1]
    slow = torch.randn(256, 256, device=device)
    before = _C.stream_bytes(0, stream.stream_id)
    _C.set_stream_quota(0, [stream.stream_id], before + size, "context 'one'")
    try:
        for _ in range(3):
            with torch.aule.stream(other):
                torch.empty(2 * size, dtype=torch.uint8, device=device)  # leaves a cached segment of another stream
            reserved = torch.aule.memory_reserved()
            torch.aule.set_per_process_memory_fraction((reserved + (1 << 20)) / total)
            for _ in range(20):
                slow @ slow
            start, got, refused = threading.Barrier(2), [], []

            def allocate(start=start, got=got, refused=refused):
                with torch.aule.stream(stream):
                    start.wait()
                    try:
                        got.append(torch.empty(size, dtype=torch.uint8, device=device))
                    except torch.OutOfMemoryError as error:
                        refused.append(str(error))

            threads = [threading.Thread(target=allocate) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(got) == 1 and "context 'one'" in refused[0]
            assert _C.stream_bytes(0, stream.stream_id) == before + size
            got.clear()
            assert _C.stream_bytes(0, stream.stream_id) == before
            torch.aule.set_per_process_memory_fraction(1.0)
            torch.aule.empty_cache()
        torch.aule.set_per_process_memory_fraction(0.0)
        with torch.aule.stream(stream), pytest.raises(torch.OutOfMemoryError, match="fraction"):
            torch.empty(size, dtype=torch.uint8, device=device)
        assert _C.stream_bytes(0, stream.stream_id) == before  # what failed is not charged
    finally:
        torch.aule.set_per_process_memory_fraction(1.0)
        _C.clear_stream_quota(0, stream.stream_id)


def test_streams_of_one_owner_share_a_quota(device):
    first, second = torch.Stream(device="aule:0"), torch.Stream(device="aule:0")
    ids = [first.stream_id, second.stream_id]
    held = sum(_C.stream_bytes(0, i) for i in ids)
    _C.set_stream_quota(0, ids, held + 4096, "partition 'two'")
    try:
        with torch.aule.stream(first):
            kept = torch.ones(512, device=device)
        with torch.aule.stream(second):
            with pytest.raises(torch.OutOfMemoryError, match="partition 'two'"):
                torch.empty(1024, device=device)
            del kept
            torch.empty(1024, device=device)
    finally:
        for i in ids:
            _C.clear_stream_quota(0, i)
