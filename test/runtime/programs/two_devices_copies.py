"""Copies between two devices of one process, non_blocking and not, among streams and events of both.

One physical device twice, by TORCH_AULE_VISIBLE_DEVICES=0,0.
"""

from __future__ import annotations

import torch

import torch_aule  # noqa: F401

assert torch.aule.device_count() == 2
A, B = torch.device("aule", 0), torch.device("aule", 1)
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def layouts(t):
    """`t` contiguous, transposed, and with an offset and steps; on its device."""
    yield t
    yield t.t().contiguous().t()
    wide = torch.zeros(t.shape[0], 2 * t.shape[1] + 3, dtype=t.dtype, device=t.device)
    view = wide[:, 3 : 3 + 2 * t.shape[1] : 2]
    view.copy_(t)
    yield view


def every_copy():
    """Between dtypes and layouts, both ways, into poisoned results, and nothing beside them."""
    for source, target in ((A, B), (B, A)):
        for non_blocking in (False, True):
            for dtype in DTYPES:
                for shape in ((37, 21), (1, 1), (0, 5)):
                    values = torch.randn(shape, dtype=torch.float64).mul(3).to(dtype)
                    for t in layouts(values.to(source)):
                        moved = t.to(target, non_blocking=non_blocking)
                        assert moved.device == target and moved.dtype == dtype
                        assert torch.equal(moved.cpu(), values), (source, dtype, shape, t.stride())
                        for result in layouts(torch.full_like(values, 1).to(target)):
                            result.copy_(t, non_blocking=non_blocking)
                            assert torch.equal(result.cpu(), values), (source, dtype, shape, t.stride())
            values = torch.randn(19, 23)
            changed = torch.empty(19, 23, dtype=torch.float64, device=target)
            changed.copy_(values.to(source), non_blocking=non_blocking)
            assert torch.equal(changed.cpu(), values.double())
            assert torch.equal(values.to(source).to(target, torch.int32, non_blocking=non_blocking).cpu(), values.int())


def order():
    """A copy reads what its source's stream has written before, and what comes after waits for it, on both devices."""
    n = 300
    start = torch.rand(n, n, dtype=torch.float64) / n
    expected = start.clone()
    a, b = start.to(A), torch.empty(n, n, dtype=torch.float64, device=B)
    for step in range(6):
        a = a @ a + step  # as slow as it gets, so that a copy that does not wait is seen
        expected = expected @ expected + step
        b.copy_(a, non_blocking=True)
        a.zero_()  # the copy has read it
        b.mul_(0.5)
        expected = expected * 0.5 / n
        a.copy_(b / n, non_blocking=True)
        b.fill_(-1)
    torch.testing.assert_close(a.cpu(), expected, rtol=1e-10, atol=1e-12)


def streams():
    """Streams of one device wait for events of the other."""
    n = 300
    host = torch.rand(n, n) / n
    on_a, on_b = torch.aule.Stream(A), torch.aule.Stream(B)
    a, b = host.to(A), torch.zeros(n, n, device=B)
    torch.aule.synchronize(A)
    torch.aule.synchronize(B)
    expected = host.double()
    for _ in range(4):
        with torch.aule.stream(on_a):
            for _ in range(3):
                a = a @ a + host.to(A, non_blocking=True)
            sent = on_a.record_event()
        with torch.aule.stream(on_b):
            assert torch.aule.current_device() == 1
            on_b.wait_event(sent)
            b.copy_(a, non_blocking=True)
            b.add_(1)
            back = on_b.record_event()
        on_a.wait_event(back)
        with torch.aule.stream(on_a):
            a = (b.to(A, non_blocking=True) - 1) * 0.5
        for _ in range(3):
            expected = expected @ expected + host.double()
        expected = expected * 0.5
    on_a.synchronize()
    torch.testing.assert_close(a.cpu().double(), expected, rtol=1e-4, atol=1e-5)
    assert sent.query() and back.query()
    torch.aule.current_stream(A).wait_stream(on_b)
    assert torch.equal(b.cpu(), b.to(A).cpu())


def memory():
    """What a copy reads may be freed at once."""
    for step in range(20):
        host = torch.full((1 << 18,), float(step))
        moved = (host.to(A) + 1).to(B, non_blocking=True)
        other = torch.full((1 << 18,), -1.0, device=A)  # may take the block
        assert moved.eq(step + 1).all().item() and other.eq(-1).all().item(), step


def noted():
    """The host waits, which the debug mode refuses."""
    a = torch.ones(5, device=A)
    torch.aule.set_sync_debug_mode("error")
    try:
        a.to(B)
    except RuntimeError as error:
        assert "synchroniz" in str(error) or "wait" in str(error), error
    else:
        raise AssertionError("no error")
    finally:
        torch.aule.set_sync_debug_mode("default")
    assert a.to(B).cpu().eq(1).all()


every_copy()
order()
streams()
memory()
noted()
