"""Quotas of streams: the allocation above one raises, and other streams go on."""

import pytest
import torch

from torch_aule import _C

pytestmark = pytest.mark.validated


def test_an_allocation_above_the_quota_raises_and_others_go_on(device):
    stream = torch.Stream(device="aule:0")
    before = _C.stream_bytes(0, stream.stream_id)
    _C.set_stream_quota(0, stream.stream_id, before + 4096, "context 'small'")
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
