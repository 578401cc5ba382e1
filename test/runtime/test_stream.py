"""Streams, events, timing and threads."""

import pytest
import torch

from helpers import assert_close, in_threads

pytestmark = pytest.mark.validated


def test_objects(device):
    s = torch.Stream(device=device)
    assert s.device.type == "aule" and s.device.index == 0 and s.stream_id != 0
    assert torch.aule.default_stream().stream_id == 0
    assert torch.aule.current_stream() == torch.aule.default_stream() == torch.accelerator.current_stream()
    assert issubclass(torch.aule.Stream, torch.Stream) and torch.aule.Event is torch.Event
    assert isinstance(s, torch.aule.Stream) and isinstance(torch.aule.current_stream(), torch.aule.Stream)
    assert not isinstance(torch.Stream(device="cpu"), torch.aule.Stream)
    assert torch.Stream(device=device, priority=-1).stream_id != 0
    with pytest.raises(ValueError):
        torch.aule.set_stream(_CpuStream())
    with pytest.raises(NotImplementedError):
        torch.aule.get_stream_from_external(0)


class _CpuStream:
    device = torch.device("cpu")


def test_contexts(device):
    a, b = torch.Stream(device=device), torch.Stream(device=device)
    with torch.aule.stream(a) as inside:
        assert inside is a and torch.aule.current_stream() == a
        with torch.aule.stream(None):
            assert torch.aule.current_stream() == a
        with b:
            assert torch.accelerator.current_stream() == b
        assert torch.aule.current_stream() == a
    assert torch.aule.current_stream().stream_id == 0
    context = torch.aule.stream(a)
    with context, torch.aule.stream(b), context:
        assert torch.aule.current_stream() == a
    assert torch.aule.current_stream().stream_id == 0
    torch.accelerator.set_stream(b)
    assert torch.aule.current_stream() == b
    torch.aule.set_stream(torch.aule.default_stream())
    with pytest.raises(KeyError):
        with torch.aule.stream(a):
            raise KeyError
    assert torch.aule.current_stream().stream_id == 0


def test_streams_are_ordered_by_wait(device):
    a, b = torch.Stream(device=device), torch.Stream(device=device)
    x = torch.zeros(1 << 18, device=device)
    for i in range(10):
        first, second = (a, b) if i % 2 else (b, a)
        first.wait_stream(torch.aule.current_stream())
        with torch.aule.stream(first):
            x += 1
        second.wait_stream(first)
        with torch.aule.stream(second):
            x *= 2
        torch.aule.current_stream().wait_stream(second)
    expected = 0.0
    for _ in range(10):
        expected = (expected + 1) * 2
    assert x.cpu().unique().tolist() == [expected]


def test_events(device):
    s = torch.Stream(device=device)
    done = torch.Event(device=device)
    assert done.query()  # never recorded: complete
    with torch.aule.stream(s):
        x = torch.full((1000,), 2.0, device=device)
        event = s.record_event()
    torch.aule.current_stream().wait_event(event)
    assert (x * 2).cpu().unique().tolist() == [4.0]
    event.synchronize()
    assert event.query() and s.query()
    done.record(s)
    done.wait()
    s.synchronize()
    assert done.query()


def test_timing(device):
    start, end = (torch.aule.Event(enable_timing=True) for _ in range(2))
    x = torch.ones(1 << 16, device=device)
    start.record()
    for _ in range(20):
        x = x * 1.0001
    end.record()
    end.synchronize()
    elapsed = start.elapsed_time(end)
    assert 0 < elapsed < 60_000
    start.record()
    end.record()
    end.synchronize()
    assert 0 <= start.elapsed_time(end) < 1000
    plain = torch.Event(device=device)
    plain.record()
    with pytest.raises((RuntimeError, ValueError)):
        plain.elapsed_time(end)


def test_many_events_do_not_run_out(device):
    x = torch.ones(8, device=device)
    for _ in range(3000):
        e = torch.Event(device=device, enable_timing=True)
        e.record()
    e.synchronize()
    assert e.query() and x.cpu().sum().item() == 8


def test_synchronize(device):
    x = torch.ones(1000, device=device) + 1
    torch.aule.synchronize()
    torch.aule.synchronize(0)
    torch.aule.synchronize("aule:0")
    torch.accelerator.synchronize()
    assert torch.aule.current_stream().query()
    assert x.cpu()[0] == 2


def test_threads(device):
    """Each thread has its own current stream, and threads may record at once."""

    def work(n):
        assert torch.aule.current_stream().stream_id == 0
        stream = torch.Stream(device=device)
        with torch.aule.stream(stream):
            x = torch.full((2000,), float(n), device=device)
            for _ in range(20):
                x = x + 1
            return x.cpu()

    for n, result in enumerate(in_threads(work)):
        assert_close(result, torch.full((2000,), float(n + 20)))


def test_threads_on_one_stream(device):

    def work(n):
        for _ in range(20):
            x = torch.full((100,), float(n), device=device)
            assert (x + x).cpu().unique().tolist() == [2.0 * n]

    in_threads(work)


def test_backward_on_a_side_stream(device):
    s = torch.Stream(device=device)
    x = torch.randn(50, device=device, requires_grad=True)
    s.wait_stream(torch.aule.current_stream())
    with torch.aule.stream(s):
        y = (x * x).sum()
    y.backward()
    torch.aule.current_stream().wait_stream(s)
    assert_close(x.grad, 2 * x.detach())


def test_priorities(device):
    low, high = torch.aule.Stream.priority_range()
    assert low == 0 and high in (0, -1)
    assert torch.aule.Stream.priority_range("aule:0") == (low, high)
    normal, urgent = torch.aule.Stream(), torch.aule.Stream(priority=-1)
    assert normal.priority == 0 and urgent.priority == high
    assert torch.aule.Stream(device="aule:0", priority=-5).priority == high  # limited to the range, as in torch.cuda
    assert torch.aule.current_stream().priority == 0
    with pytest.raises(RuntimeError):
        torch.aule.Stream(device="aule:63")
    x = torch.ones(1000, device=device)
    urgent.wait_stream(torch.aule.current_stream())
    with urgent:
        assert torch.aule.current_stream() == urgent
        y = x + 1
    torch.aule.current_stream().wait_stream(urgent)
    assert y.cpu().unique().tolist() == [2.0]
