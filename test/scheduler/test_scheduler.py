"""torch_aule.scheduler: tasks, contexts and simulation."""

import asyncio
import gc

import pytest
import torch

from torch_aule.scheduler import AdmissionError, Scheduler


def test_tasks_run_by_priority_and_give_results(device):
    s, order = Scheduler(device), []
    x = torch.randn(64, 64)

    def task(name):
        def run():
            order.append(name)
            return x.to(device) @ x.to(device)

        return run

    low = s.submit(task("low"))
    high = s.submit(task("high"), policy="guaranteed", memory=1 << 20)
    last = s.submit(task("last"), priority=1000, after=[low])
    assert s.stats(last)["state"] == "PENDING"
    s.run()
    assert order == ["high", "low", "last"]
    torch.testing.assert_close(s.result(high).cpu(), x @ x, rtol=1e-4, atol=1e-4)
    assert s.stats(high)["state"] == "COMPLETED" and s.stats(high)["device_us"] > 0
    assert s.global_stats()["guaranteed"]["completed"] == 1 and s.step() == []


def test_failures_cancellation_and_rejection(device):
    s = Scheduler(device, memory=1 << 20)

    def bad():
        raise ValueError("no")

    failing, other = s.submit(bad), s.submit(lambda: 3)
    dropped = s.submit(lambda: 4)
    assert s.cancel(dropped) and not s.cancel(dropped)
    s.run()
    with pytest.raises(ValueError, match="no"):
        s.result(failing)
    assert s.result(other) == 3 and s.stats(dropped)["state"] == "CANCELLED"
    with pytest.raises(AdmissionError) as caught:
        s.submit(lambda: 1, memory=1 << 30)
    assert caught.value.reason == "memory" and s.decisions()[-1]["verdict"] == "reject"
    with pytest.raises(ValueError, match="expected policy"):
        s.submit(lambda: 1, policy="mine")
    with pytest.raises(ValueError, match="share"):
        s.create_context("a", share=0)
    with pytest.raises(AdmissionError, match="no room"):
        s.create_context("a", base_vram=1 << 21)


def test_a_context_above_its_quota_fails_alone(device):
    gc.collect()  # contexts of schedulers that are gone had the same streams, and what their tasks returned counts
    s, pressed = Scheduler(device), []
    small = s.create_context("small", max_vram=1 << 16, on_pressure=lambda c: pressed.append(c.name))
    free = s.create_context("free", qos="burstable")
    assert small.stream.stream_id != free.stream.stream_id
    too_much = s.submit(lambda: torch.ones(1 << 18, device=device), context=small)
    fits = s.submit(lambda: torch.ones(1 << 10, device=device), context=small)
    large = s.submit(lambda: torch.ones(1 << 18, device=device).sum().item(), context=free)
    s.run()
    with pytest.raises(torch.OutOfMemoryError, match="context 'small'"):
        s.result(too_much)
    assert s.result(large) == 1 << 18 and s.result(fits).sum().item() == 1 << 10
    assert pressed == ["small"] and s.stats(large)["policy"] == "burstable"
    assert small.usage() >= 1 << 12
    small.close()
    with small:
        torch.empty(1 << 18, device=device)
        assert torch.aule.current_stream() == small.stream

    async def inside():
        async with free as context:
            return torch.aule.current_stream() == context.stream

    assert asyncio.run(inside())
    free.close()


@pytest.mark.parametrize("shares", [(0.75, 0.25), (0.5, 0.5), (0.2, 0.6)])
def test_a_simulation_shares_time_as_asked(shares):
    """Within 10 %, of work that never ends."""
    s = Scheduler(simulate=True)
    contexts = [s.create_context(str(i), share=share) for i, share in enumerate(shares)]
    used = [0.0, 0.0]

    def work(i):
        def run():
            used[i] += 0.5
            s.submit(work(i), context=contexts[i])
            return 0.5

        return run

    for i, context in enumerate(contexts):
        s.submit(work(i), context=context)
    while s.now() < 2_000_000:
        s.step()
    for share, ms in zip(shares, used):
        assert abs(ms / 2000 - share) <= 0.1 * share


def test_what_is_forgotten_frees_its_memory(device):
    s = Scheduler(device)
    gc.collect()  # of other tests
    torch.aule.synchronize()
    before = torch.aule.memory_allocated()
    first = s.submit(lambda: torch.ones(1 << 16, device=device))
    second = s.submit(lambda: 7, after=[first])
    with pytest.raises(ValueError, match=f"task {first} has not ended, it is "):
        s.forget(first)
    s.run()
    assert s.result(first).sum().item() == 1 << 16 and torch.aule.memory_allocated() >= before + 4 * (1 << 16)
    s.forget(first)
    torch.aule.synchronize()
    assert torch.aule.memory_allocated() <= before + 1024 and s.result(second) == 7
    for forgotten in (s.stats, s.forget):
        with pytest.raises(IndexError):
            forgotten(first)
    with pytest.raises(KeyError):
        s.result(first)
    with pytest.raises(AdmissionError):
        s.submit(lambda: 1, after=[first])
    assert s.global_stats()["burstable"]["completed"] + s.global_stats()["best_effort"]["completed"] == 2


@pytest.mark.parametrize("simulate", [False, True])
def test_a_task_that_waits_for_itself_is_told(device, simulate):
    s = Scheduler(None if simulate else device, simulate=simulate)
    task, closing = s.submit(lambda: s.run()), s.submit(lambda: s.close())
    s.run()
    for name, mine in (("run", task), ("close", closing)):
        with pytest.raises(RuntimeError, match=rf"Scheduler\.{name}: task {mine} called it"):
            s.result(mine)
    s.run()  # from outside it may


def test_wrong_arguments_are_refused_at_once(device):
    s, other = Scheduler(device), Scheduler(device)
    context, foreign, closed = s.create_context("a"), other.create_context("a"), s.create_context("b")
    closed.close()
    for bad in (5, None, "f"):
        with pytest.raises(TypeError, match="submit: expected a function"):
            s.submit(bad)
    for bad in ("a", 1, foreign, closed):
        with pytest.raises(ValueError, match="submit: expected an open context of this scheduler"):
            s.submit(lambda: 1, context=bad)
    for name in ("memory", "bandwidth", "device_ms"):
        with pytest.raises(ValueError, match=f"submit: expected {name} of at least 0, but got -1"):
            s.submit(lambda: 1, **{name: -1})
    for bad in ("a", 7, None):
        with pytest.raises(ValueError, match="create_context: expected a name that no open context has"):
            s.create_context(bad)
    assert s.global_stats()["waiting"] == 0 and s.submit(lambda: 1, context=context)
    s.run()
    s.create_context("b")
    s.close()
    s.create_context("a").close()
