"""Tasks of several contexts at the same time."""

import pytest
import torch

from helpers import lasting_factor
from torch_aule.scheduler import QoS, Scheduler
from torch_aule.scheduler.devices import Device, _Running

pytestmark = pytest.mark.validated


def slow(x, times):
    """For elements of 0.5 on average, the result's are about as large."""
    y = x
    for _ in range(times):
        y = y @ x * (2 / len(x))
    return y


def test_contexts_run_at_the_same_time_and_steps_do_not_wait(device):
    s = Scheduler(device)
    contexts = [s.create_context(name, max_running=room) for name, room in (("a", 1), ("b", 1), ("c", 2))]
    x = torch.rand(300, 300, device=device)
    tasks = [s.submit(lambda: slow(x, 40), context=c) for c in contexts for _ in range(3)]
    assert s.step() == [tasks[i] for i in (0, 3, 6, 7)]  # one of each, two of the last
    states = [s.stats(task)["state"] for task in tasks]
    assert states == ["RUNNING", "QUEUED", "QUEUED"] * 2 + ["RUNNING", "RUNNING", "QUEUED"]
    with pytest.raises(KeyError):
        s.result(tasks[0])
    with pytest.raises(ValueError, match="has not ended"):
        contexts[0].close()
    assert not s.cancel(tasks[0]) and s.global_stats()["running"] == 4
    s.run()
    wanted = slow(x.cpu().double(), 40)
    assert 0.1 < wanted.mean() < 10
    for task in tasks:
        torch.testing.assert_close(s.result(task).cpu().double(), wanted, rtol=1e-3, atol=1e-6)
        assert s.task(task).state == "COMPLETED" and s.stats(task)["device_us"] > 0
    assert s.global_stats()["running"] == 0 and s.step() == []


def test_a_task_follows_the_work_it_was_submitted_behind(device):
    s = Scheduler(device)
    context = s.create_context("other")
    x = torch.zeros(300, 300, device=device)
    for i in range(5):
        x += slow(torch.rand(300, 300, device=device), 10) * 0
        x.fill_(i)
        task = s.submit(lambda x=x: x + 1, context=context)
        s.run()
        assert bool((s.result(task) == i + 1).all())


def test_what_a_task_captured_lives_until_it_has_run(device):
    """The default stream would hand the memory out again as soon as the last tensor that has it is gone."""
    s = Scheduler(device)
    context = s.create_context("other")
    source = torch.rand(100, 100)
    x = source.to(device)
    task = s.submit(lambda x=x: slow(x.clone(), 3) * 0 + x, context=context)
    del x
    s.step()
    torch.full((100, 100), -1.0, device=device)
    s.run()
    assert torch.equal(s.result(task).cpu(), source)


def test_an_index_out_of_range_fails_the_task(device):
    s = Scheduler(device)
    x = torch.rand(5, 3, device=device)
    wrong = s.submit(lambda: x[torch.tensor([1, 9], device=device)])
    after = s.submit(lambda: x.sum(), after=[wrong])
    s.run()
    with pytest.raises(IndexError):
        s.result(wrong)
    assert s.stats(wrong)["state"] == "FAILED" and s.stats(after)["state"] == "CANCELLED"


@pytest.mark.parametrize("share", [0.7, 0.35])
def test_two_contexts_of_different_classes_get_their_shares_of_the_device(device, share):
    """Of the time that the device was in use: another process may take some of it. Both have work at all times."""
    s = Scheduler(device)
    serving = s.create_context("serving", qos=QoS.Guaranteed, share=share)
    training = s.create_context("training", qos=QoS.BestEffort, share=1 - share)
    x = lasting_factor(128, device)
    sizes = {serving: 4, training: 7}
    for times in sizes.values():
        slow(x, times)
    torch.aule.synchronize()
    latest = {}
    start = s.now()
    while s.now() - start < 1_500_000:
        for context, times in sizes.items():
            if context not in latest or s.task(latest[context]).state != "QUEUED":
                latest[context] = s.submit(lambda times=times: slow(x, times), context=context)
        s.step()
    s.run()
    used = [s.global_stats()[policy]["device_us"] for policy in ("guaranteed", "best_effort")]
    assert used[0] / sum(used) == pytest.approx(share, rel=0.1)


class Mark:
    """An event that a device reaches at a given time, for devices whose clock the test moves."""

    now = 0.0

    def __init__(self, at):
        self.at = at

    def query(self):
        return Mark.now >= self.at

    def synchronize(self):
        assert self.query()

    def elapsed_time(self, other):
        assert self.query() and other.query()
        return (other.at - self.at) / 1e3


def test_time_is_divided_with_tasks_that_have_not_ended(device):
    on = Device(0)
    on._timed, on._base = True, Mark(0)
    times = {1: (0, 4000), 2: (1000, 10_000), 3: (8000, 9000), 4: (30_000, 31_000)}
    on._not_begun = {task: Mark(first) for task, (first, _) in times.items()}
    on._running = {task: _Running(None, on._not_begun[task], Mark(last), 0, None, None)
                   for task, (_, last) in times.items()}  # fmt: skip
    took = {}
    for Mark.now in (500, 2000, 5000, 6000, 40_000):
        took |= {ended.task: ended.device_us for ended in on.poll()}
        assert set(took) == {task for task, (_, last) in times.items() if last <= Mark.now}
    assert took == {1: 2500, 2: 1500 + 4000 + 500 + 1000, 3: 500, 4: 1000} and not on._not_begun


def test_a_simulation_runs_contexts_at_the_same_time():
    s = Scheduler(simulate=True)
    a, b = s.create_context("a"), s.create_context("b")
    first, second = s.submit(lambda: 10, context=a), s.submit(lambda: 4, context=b)
    third = s.submit(lambda: 2, context=a)
    assert s.step() == [first, second]
    s.run()
    rows = [s.stats(task) for task in (first, second, third)]
    assert [row["device_us"] for row in rows] == [10_000, 4_000, 2_000]
    assert [row["run_us"] for row in rows] == [14_000, 8_000, 2_000] and rows[2]["wait_us"] == 14_000
    assert s.now() == 16_000


def test_a_task_is_an_object_too():
    s = Scheduler(simulate=True)
    first = s.submit(lambda: 3)
    second = s.submit(lambda: 5, memory=4096, policy=QoS.Burstable, after=[first])
    task = s.task(second)
    assert task.state == "PENDING" and task.policy is QoS.Burstable and task.priority == QoS.Burstable.priority == 50
    assert task.memory == 4096 and task.dependencies == (first,) and task.execution_time == 0
    s.run()
    assert task.state == "COMPLETED" and task.execution_time == 0.005 and task.wait_time == 0.003
    assert task.result is None and not task.cancel() and f"Task({second}, COMPLETED" in repr(task)
    with pytest.raises(IndexError):
        s.task(999)


def test_failures_in_a_simulation():
    s = Scheduler(simulate=True)
    failing = s.submit(lambda: 1 / 0)
    after = s.submit(lambda: 1, after=[failing])
    s.run()
    assert s.task(failing).state == "FAILED" and s.task(after).state == "CANCELLED" and not s._functions
    with pytest.raises(ZeroDivisionError):
        s.result(failing)
