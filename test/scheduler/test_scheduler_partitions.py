"""Contexts as partitions: several streams, shares, limits, transfers of their own."""

import pytest
import torch

from helpers import lasting_factor
from torch_aule.scheduler import AdmissionError, QoS, Scheduler

pytestmark = pytest.mark.validated


def test_a_partition_says_what_it_has_and_what_it_has_before_it(device):
    quota = 1 << 28
    s = Scheduler(device)
    context = s.create_context("two", max_vram=quota, share=0.5, bandwidth=0.4, streams=2, in_flight=3)
    other = s.create_context("other", qos=QoS.Guaranteed)
    before = context.partition
    assert (before.memory_quota, before.compute_share, before.bandwidth_share) == (quota, 0.5, 0.4)
    assert len({stream.stream_id for stream in before.streams + other.streams}) == 3
    assert all(torch.aule.in_flight(stream)["limit"] == 3 for stream in context.streams)
    assert other.stream.priority == torch.aule.Stream.priority_range(device)[1]
    x = lasting_factor(300, device)

    def work():
        y = x
        for _ in range(30):
            y = y @ x * (2 / len(x))
        return y

    tasks = [s.submit(work, context=context) for _ in range(3)]
    assert s.step() == tasks[:2]  # one on each stream
    assert {stream.stream_id for stream in s._on.values()} == {stream.stream_id for stream in context.streams}
    assert context.partition.pending_kernels > 0 and context.partition.memory_used > before.memory_used
    s.run()
    assert context.partition.pending_kernels == 0
    torch.testing.assert_close(s.result(tasks[2]), s.result(tasks[0]))
    with pytest.raises(AdmissionError) as caught:
        s.submit(work, bandwidth=0.45, context=context)
    assert caught.value.reason == "bandwidth"
    context.close()
    assert all(torch.aule.in_flight(stream)["limit"] == 64 for stream in context.streams)


def test_transfers_of_a_partition(device):
    s = Scheduler(device)
    context, other = s.create_context("a"), s.create_context("b", qos=QoS.Guaranteed)
    s.transfers  # noqa: B018  made at first use
    sources = [torch.rand(1 << 22) for _ in range(2)]
    there = [torch.empty(1 << 22, device=device) for _ in sources]
    low = [context.transfer(source, to) for source, to in zip(sources, there)]
    high = other.transfer(there[0][:9], torch.empty(9))
    assert context.partition.pending_transfers <= 2 and other.partition.pending_transfers <= 1
    high.wait()
    while any(transfer.state != "COMPLETED" for transfer in low):
        s.step()
    assert context.partition.pending_transfers == other.partition.pending_transfers == 0
    assert all(torch.equal(to.cpu(), source) for source, to in zip(sources, there))
    assert s.transfers.stats()["to_device"]["bytes"] == 2 * sources[0].nbytes


@pytest.mark.parametrize(
    "bad", [{"streams": 0}, {"in_flight": 0}, {"max_running": 0}, {"bandwidth": 0}, {"streams": 33}]
)
def test_wrong_arguments_raise_and_leave_nothing(device, bad):
    s = Scheduler(device, memory=1 << 20)
    with pytest.raises((ValueError, RuntimeError), match="at least 1|above 0|bandwidth|fewer than 33"):
        s.create_context("a", base_vram=1 << 20, **bad)
    assert s.global_stats()["committed_bytes"] == 0
    s.create_context("a", base_vram=1 << 20)


def test_a_simulation_has_partitions_and_transfers_too():
    s = Scheduler(simulate=True)
    a, b = s.create_context("a", max_vram=1000, streams=2), s.create_context("b", qos="guaranteed")
    tasks = [s.submit(lambda: 2, context=a) for _ in range(3)]
    sources, targets = torch.rand(3, 4), torch.zeros(3, 4)
    done = [a.transfer(sources[0], targets[0]), b.transfer(sources[2], targets[2])]
    assert a.partition.pending_transfers == 0 and a.partition.streams == () and a.partition.memory_quota == 1000
    assert all(one.state == "COMPLETED" and not one.cancel() for one in done) and s.step() == tasks[:2]
    s.transfers.synchronize()
    done[0].wait()
    s.run()
    assert torch.equal(targets[0], sources[0]) and torch.equal(targets[2], sources[2]) and targets[1].sum() == 0
    row = s.transfers.stats()["to_device"]
    assert (row["completed"], row["cancelled"], row["queued"], row["bytes"]) == (2, 0, 0, 32)
    assert s.now() == 6000 and s.task(tasks[2]).state == "COMPLETED"
    with pytest.raises(ValueError, match="one dtype and shape"):
        s.transfers.enqueue(sources, targets[0])
