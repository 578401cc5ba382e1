"""Policies of the scheduler's core, with a clock of the test's own: no device takes part."""

import random

import pytest

from torch_aule import _C

GUARANTEED, BURSTABLE, BEST_EFFORT = range(3)


def core(memory=1000, queued=100, running=1, window=10_000):
    return _C.TaskScheduler(memory, queued, running, window)


def submit(s, qos=BEST_EFFORT, now=0, priority=None, memory=0, bandwidth=0.0, after=(), context=0, stream=0):
    return s.submit(qos, priority, memory, bandwidth, list(after), context, stream, now)


def state(s, task, now=0):
    return s.stats(task, now)["state"]


def test_classes_have_the_promised_numbers():
    assert _C.qos_policies == [
        ("guaranteed", 100, 1.0, 1.0, True), ("burstable", 50, 1.5, 0.8, True), ("best_effort", 0, 2.0, 0.5, False)
    ]  # fmt: skip
    assert _C.task_states == ["PENDING", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]


def test_order_is_priority_then_age():
    s, rng = core(), random.Random()
    wanted = []
    for age in range(40):
        priority = rng.randrange(5)
        wanted.append((-priority, age, submit(s, priority=priority)["task"]))
    got = []
    while (task := s.next(0)) is not None:
        got.append(task)
        s.finish(task, False, 0, 0)
    assert got == [task for *_, task in sorted(wanted)]


@pytest.mark.parametrize(
    "qos, most, share", [(GUARANTEED, 1000, 1.0), (BURSTABLE, 1500, 0.8), (BEST_EFFORT, 2000, 0.5)]
)
def test_a_task_that_can_never_run_is_rejected(qos, most, share):
    assert submit(core(), qos, memory=most)["verdict"] == "admit"
    refused = submit(core(), qos, memory=most + 1)
    assert (refused["verdict"], refused["reason"]) == ("reject", "memory")
    assert submit(core(), qos, bandwidth=share)["verdict"] == "admit"
    refused = submit(core(), qos, bandwidth=share + 0.01)
    assert (refused["verdict"], refused["reason"]) == ("reject", "bandwidth")


def test_the_queue_has_an_end_positions_and_an_estimate():
    s = core(queued=2)
    first = submit(s)["task"]
    assert s.next(0) == first
    s.finish(first, False, 400, 400)
    running = submit(s, now=400)["task"]
    assert s.next(400) == running
    second, third = submit(s, now=400), submit(s, now=400)
    assert (second["verdict"], second["reason"], second["position"]) == ("queue", "slots", 1)
    assert (third["position"], second["estimate_us"], third["estimate_us"]) == (2, 800, 1200)
    assert submit(s, now=400)["reason"] == "queue_full"
    assert s.global_stats()["best_effort"]["rejected"] == 1
    assert [row["verdict"] for row in s.decisions()] == ["admit", "admit", "queue", "queue", "reject"]


def test_classes_that_reserve_hold_their_memory_before_they_run():
    s = core(running=4)
    submit(s, GUARANTEED, memory=700)
    assert s.global_stats()["committed_bytes"] == 700
    submit(s, BEST_EFFORT, memory=700)
    assert s.global_stats()["committed_bytes"] == 700
    later = submit(s, GUARANTEED, memory=400)
    assert (later["verdict"], later["reason"]) == ("queue", "memory")
    first = s.next(0)
    assert s.next(0) is None  # the second guaranteed task waits, and nothing overtakes it
    s.finish(first, False, 1, 1)
    assert s.next(1) == later["task"]


def test_dependencies_wait_fail_and_are_checked():
    s = core(running=3)
    a = submit(s)["task"]
    b = submit(s, after=[a])
    c = submit(s, after=[b["task"]])["task"]
    assert (b["verdict"], b["reason"]) == ("queue", "dependencies") and state(s, c) == "PENDING"
    assert s.next(0) == a and s.next(0) is None
    s.finish(a, False, 5, 5)
    assert s.next(5) == b["task"] and state(s, b["task"], 5) == "RUNNING"
    s.finish(b["task"], True, 5, 10)
    assert state(s, b["task"]) == "FAILED" and state(s, c) == "CANCELLED"
    assert submit(s, after=[b["task"]])["reason"] == submit(s, after=[12345])["reason"] == "dependencies"


def test_cancelling_gives_back_what_was_reserved_and_leaves_running_tasks_alone():
    s = core()
    a = submit(s, BURSTABLE, memory=600)["task"]
    assert s.cancel(a, 3) and not s.cancel(a, 3) and not s.cancel(999, 3)
    assert state(s, a) == "CANCELLED" and s.stats(a, 9)["wait_us"] == 3
    assert s.global_stats()["committed_bytes"] == 0
    b = submit(s)["task"]
    assert s.next(0) == b and not s.cancel(b, 0)


def test_contexts_have_quotas_and_a_base_of_their_own():
    s = core(running=4)
    assert s.add_context(1, 500, 300) and not s.add_context(2, 900, 800)
    assert s.global_stats()["committed_bytes"] == 300
    assert submit(s, memory=501, context=1)["reason"] == "memory"
    a = submit(s, memory=400, context=1)["task"]
    b = submit(s, memory=200, context=1)["task"]
    assert s.next(0) == a and s.global_stats()["committed_bytes"] == 400
    assert s.next(0) is None  # 600 is above the quota
    with pytest.raises(ValueError, match="has not ended"):
        s.remove_context(1)
    s.finish(a, False, 1, 1)
    assert s.next(1) == b and s.global_stats()["committed_bytes"] == 300
    with pytest.raises(ValueError, match="no such context"):
        submit(s, context=7)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.7])
def test_pacing_gives_a_stream_its_share_of_the_time(share):
    """Two streams with work at all times, one device: each gets its share within a tenth, whatever a task's length."""
    s, rng, used, now = core(queued=10_000), random.Random(), {1: 0, 2: 0}, 0
    s.set_share(1, share, 0)
    s.set_share(2, 1 - share, 0)
    owner = {}
    for _ in range(2000):
        for stream in (1, 2):
            owner[submit(s, stream=stream)["task"]] = stream
    while now < 1_000_000:
        task = s.next(now)
        if task is None:
            now += 100
            continue
        length = rng.randrange(200, 3000)
        now += length
        used[owner[task]] += length
        s.finish(task, False, length, now)
    assert used[1] / (used[1] + used[2]) == pytest.approx(share, rel=0.1)
    assert used[1] <= share * now + 13_000


@pytest.mark.parametrize("start", [0, 17])
@pytest.mark.parametrize("failed", [False, True])
def test_times_of_tasks(start, failed):
    s = core()
    task = submit(s, now=start)["task"]
    assert s.stats(task, start + 4)["wait_us"] == 4
    assert s.next(start) == task
    assert s.stats(task, start + 3)["run_us"] == 3
    s.finish(task, failed, 5, start + 9)
    row = s.stats(task, start + 100)
    assert (row["wait_us"], row["run_us"], row["device_us"]) == (0, 9, 5)


def test_wrong_arguments_raise():
    for bad in ({"queued": 0}, {"running": 0}, {"window": 0}):
        with pytest.raises(ValueError, match="above 0"):
            core(**bad)
    s = core()
    with pytest.raises(ValueError, match="share"):
        s.set_share(1, 0.0, 0)
    with pytest.raises(ValueError, match="does not run"):
        s.finish(1, False, 0, 0)
    with pytest.raises(IndexError, match="no task 5"):
        s.stats(5, 0)
    with pytest.raises(ValueError, match="bandwidth"):
        submit(s, bandwidth=float("nan"))


def test_a_context_without_room_holds_no_other_one_up():
    s = core(memory=1000, running=8)
    assert s.add_context(1, 500, 0, max_running=1) and s.add_context(2, 500, 0, max_running=2, max_bandwidth=0.3)
    a, b = (submit(s, context=1)["task"] for _ in range(2))
    c, d, e = (submit(s, context=2, memory=200)["task"] for _ in range(3))
    assert [s.next(0) for _ in range(4)] == [a, c, d, None]  # b and e have to wait, each for its own context
    assert submit(s, context=1)["reason"] == "slots"
    s.finish(c, False, 1, 1)
    assert s.next(1) == e and s.next(1) is None
    s.finish(a, True, 1, 2)
    assert s.next(2) == b
    assert submit(s, context=2, bandwidth=0.31)["reason"] == "bandwidth"
    s.finish(d, False, 1, 3)
    s.finish(e, False, 1, 3)
    large, small = (submit(s, context=2, memory=m)["task"] for m in (400, 200))
    assert s.next(3) == large and s.next(3) is None  # 600 is above this context's quota
    other = submit(s, context=2, bandwidth=0.3)["task"]
    s.finish(large, False, 1, 4)
    assert [s.next(4), s.next(4)] == [small, other]
    for bad in ({"max_running": 0}, {"max_bandwidth": 0.0}, {"max_bandwidth": 1.1}):
        with pytest.raises(ValueError, match="max_running|bandwidth"):
            s.add_context(3, 100, 0, **bad)


def test_a_start_is_charged_the_estimate_until_the_time_is_known():
    s = core(running=8)
    s.set_share(1, 0.5, 0)  # 5000 us of a window
    tasks = [s.submit(BEST_EFFORT, None, 0, 0.0, [], 0, 1, 0, device_us=4000) for _ in range(4)]
    ids = [row["task"] for row in tasks]
    assert [s.next(0) for _ in range(3)] == [ids[0], ids[1], None]  # 8000 are charged
    s.finish(ids[0], False, 1000, 0)  # which gives 3000 back, so nothing is owed
    s.finish(ids[1], False, 4000, 0)
    submit(s, stream=1)
    assert s.next(0) is None and s.next(1) == ids[2]
