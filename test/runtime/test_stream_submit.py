"""When recorded work is submitted: programs written for CUDA expect what they launched to run."""

import threading

import pytest
import torch

pytestmark = pytest.mark.validated


def within(seconds, condition):
    """Whether a condition is true before the time is over, asked every 10 ms."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return True
        pause.wait(0.01)
    return False


def stale_results(device, between=lambda: None):
    """How many of 20 side streams never read what the current stream filled.

    A side stream does not wait for the fill, here as on CUDA, so it reads until the value is there. Nobody asks the
    first stream meanwhile.
    """
    side = torch.Stream(device=device)
    stale = 0
    for i in range(1, 21):
        x = torch.zeros(1 << 16, device=device)
        torch.aule.synchronize()
        x.fill_(i)
        between()
        with torch.aule.stream(side):
            arrived = within(5, lambda: bool((x.clone().cpu() == i).all()))
        stale += not arrived
    return stale


def test_leaving_a_stream_submits(device):
    assert stale_results(device) == 0


def test_leaving_a_stream_submits_in_other_words(device):
    """torch's own contexts reach the device guard, not the functions of this package."""
    for enter in (lambda s: s, torch.aule.StreamContext):
        x = torch.zeros(1 << 16, device=device)
        side = torch.Stream(device=device)
        torch.aule.synchronize()
        x.fill_(3)
        with enter(side):
            y = x * 2
        side.synchronize()
        assert y.cpu().unique().tolist() == [6.0]
        before = torch.accelerator.current_stream()
        x.fill_(4)
        torch.accelerator.set_stream(side)
        y = x * 2
        side.synchronize()
        torch.accelerator.set_stream(before)
        assert y.cpu().unique().tolist() == [8.0]


def value_in_host_memory(host, done, seconds=20):
    """Waits without asking the stream, which would submit."""
    return within(seconds, lambda: done(host))


@pytest.mark.parametrize("how", ["event", "stream"])
def test_progress_without_asking(device, how):
    """The device writes host memory although nobody synchronizes or queries."""
    host = torch.zeros(64).pin_memory()
    x = torch.zeros(64, device=device)
    torch.aule.synchronize()
    x.fill_(7)
    host.copy_(x, non_blocking=True)
    if how == "event":
        torch.Event(device=device).record()
    else:
        with torch.aule.stream(torch.Stream(device=device)):
            pass
    assert value_in_host_memory(host, lambda h: float(h.sum()) == 7 * 64)


def test_a_loop_over_query_ends(device):
    event = torch.Event(device=device, enable_timing=True)
    x = torch.ones(1000, device=device)
    for _ in range(3):
        x += 1
    event.record()
    while not event.query():
        pass
    assert x.cpu().unique().tolist() == [4.0]


def test_timed_events_do_not_cut_what_they_measure(device):
    start, end = (torch.Event(device=device, enable_timing=True) for _ in range(2))
    x = torch.ones(1000, device=device)
    start.record()
    x += 1
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert x.cpu().unique().tolist() == [2.0]


def test_streams_change_while_nothing_is_recorded(device):
    a, b = torch.Stream(device=device), torch.Stream(device=device)
    torch.aule.synchronize()
    for _ in range(1000):
        with torch.aule.stream(a), torch.aule.stream(b):
            pass
    assert a.query() and b.query()


@pytest.mark.skipif(torch.aule.Graph is None, reason="graph capture needs torch 2.12")
def test_another_stream_during_capture(device):
    x, y = torch.zeros(100, device=device), torch.zeros(100, device=device)
    side = torch.Stream(device=device)
    torch.aule.synchronize()
    g = torch.aule.Graph()
    with torch.aule.graph(g):
        x += 1
        with torch.aule.stream(side):
            y += 5
        x *= 2
    side.synchronize()
    assert y.cpu().unique().tolist() == [5.0] and x.cpu().unique().tolist() == [0.0]
    g.replay()
    g.replay()
    torch.aule.synchronize()
    assert x.cpu().unique().tolist() == [6.0]


def test_the_stream_of_captures_is_nobodys(device):
    """Programs take streams of a pool in turn; none of them is the one that captures share."""
    g = torch.aule.Graph()
    with torch.aule.graph(g):
        own = torch.aule.current_stream()
    streams = [torch.Stream(device=device, priority=priority) for priority in (0, -1) for _ in range(40)]
    assert own.stream_id not in {stream.stream_id for stream in streams}


def test_blocking_uploads_are_complete_for_other_streams(device):
    """As on CUDA: a copy from pageable memory has happened when it returns, whichever stream reads it."""
    sides = [torch.Stream(device=device) for _ in range(3)]
    wrong = 0
    for i in range(20):
        host = torch.full((1 << 18,), float(i + 1))
        x, slices = torch.zeros(1 << 18, device=device), torch.zeros(1 << 18, device=device)
        torch.aule.synchronize()
        busy = torch.ones(1 << 20, device=device) * 2  # keeps the copy from going straight to mapped memory
        x.copy_(host)
        slices[100:200] = host[100:200]
        moved = host.to(device)
        for side in sides:
            with torch.aule.stream(side):
                y = (x + moved).cpu()
                z = slices[100:200].cpu()
            wrong += int(not bool((y == 2 * (i + 1)).all())) + int(not bool((z == i + 1).all()))
        del busy
    assert wrong == 0


def test_uploads_reach_streams_of_other_threads(device):
    """No stream is left here: the other thread's stream waits for the upload by itself."""
    wrong, jobs = [], []
    for i in range(20):
        busy = torch.ones(1 << 20, device=device) * 2
        x = torch.full((1 << 16,), float(i)).to(device)

        def read(x=x, i=i):
            with torch.aule.stream(torch.Stream(device=device)):
                if (x + 1).cpu().unique().tolist() != [i + 1.0]:
                    wrong.append(i)

        jobs.append(threading.Thread(target=read))
        jobs[-1].start()
        jobs[-1].join()
        del busy
    assert not wrong


def test_downloads_after_work_of_another_stream(device):
    side = torch.Stream(device=device)
    x = torch.zeros(1 << 16, device=device)
    torch.aule.synchronize()
    for i in range(1, 21):
        with torch.aule.stream(side):
            x.fill_(i)
            event = side.record_event()
        torch.aule.current_stream().wait_event(event)
        assert x.cpu().unique().tolist() == [float(i)]
