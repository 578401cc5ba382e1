"""Limits of the batches that a stream has in flight."""

import pytest
import torch

from helpers import lasting_factor

pytestmark = pytest.mark.validated


def ahead(stream, limit, device):
    """The most batches that were in flight after any of many calls, whose result is checked."""
    torch.aule.set_in_flight_limit(limit, stream)
    most, sides = 0, torch.randint(150, 250, (1,)).item()
    with torch.aule.stream(stream):
        x = torch.rand(sides, sides, device=device)
        y = x.double().cpu()
        long = lasting_factor(16, device)
        for i in range(60):
            x = x * 0.5 + x @ x * (0.5 / sides)
            if i % 3 == 0:
                long @ long  # the host is to run ahead
                torch.Event(device).record()  # which submits
            most = max(most, torch.aule.in_flight(stream)["batches"])
        for _ in range(60):
            y = y * 0.5 + y @ y * (0.5 / sides)
        torch.testing.assert_close(x.cpu().double(), y, rtol=1e-3, atol=1e-12)
    return most


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_call_leaves_more_batches_than_the_limit(device, limit):
    stream = torch.Stream(device=device)
    try:
        assert 1 <= ahead(stream, limit, device) <= limit
        assert torch.aule.in_flight(stream) == {"batches": 0, "commands": 0, "limit": limit}
    finally:
        torch.aule.set_in_flight_limit(64, stream)
    assert ahead(stream, 64, device) > limit  # or the limit was never reached


def test_each_stream_has_its_own_and_commands_are_counted(device):
    first, second = torch.Stream(device=device), torch.Stream(device=device)
    torch.aule.set_in_flight_limit(3, first)
    try:
        assert torch.aule.in_flight(second)["limit"] == 64 and torch.aule.in_flight(first)["limit"] == 3
        x = torch.zeros(5, device=device)
        torch.aule.synchronize()
        before = torch.aule.in_flight()["commands"]
        x.add_(1)
        assert torch.aule.in_flight()["commands"] in (before, before + 1)  # it may have run by now
        with torch.aule.stream(second):
            assert torch.aule.in_flight()["limit"] == 64
    finally:
        torch.aule.set_in_flight_limit(64, first)


def test_wrong_arguments_raise(device):
    with pytest.raises(ValueError, match="set_in_flight_limit: expected batches of at least 1, but got 0"):
        torch.aule.set_in_flight_limit(0)
    with pytest.raises(ValueError, match="at least 1"):
        torch.aule.set_in_flight_limit(-3)
    with pytest.raises(ValueError, match="in_flight: expected a stream of an aule device"):
        torch.aule.in_flight(torch.Stream(device="cpu"))
