"""Registered tensors wait on the host between the tasks that name them."""

import copy
import gc
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from torch_aule import _C
from torch_aule.scheduler import Scheduler

pytestmark = pytest.mark.validated

WAITS = r"wait on the host \(torch_aule\.scheduler\)"


def made(device, count=4, shape=(33, 35)):
    values = [torch.randn(shape) for _ in range(count)]
    return values, [value.to(device) for value in values]


def test_the_least_recently_used_go_and_come_back_with_their_views(device):
    s = Scheduler(device)
    values, tensors = made(device)
    views = [t[3:20, 1:].t() for t in tensors]
    size = tensors[0].untyped_storage().nbytes()
    s.enable_eviction(limit=2 * size)
    entries = [s.register(t) for t in tensors]
    assert [entry.resident for entry in entries] == [False, False, True, True]
    assert s.register(views[3]) is entries[3]  # of the same storage
    task = s.submit(lambda: views[0] * 2 + views[2], uses=[tensors[0], entries[2], views[2]])
    s.run()
    torch.testing.assert_close(s.result(task).cpu(), (values[0] * 2 + values[2])[3:20, 1:].t())
    assert [entry.resident for entry in entries] == [True, False, True, False]
    change = s.submit(lambda: tensors[1].add_(1), uses=[entries[1]])
    s.run()
    s.result(change)
    assert not entries[0].resident
    s.release(entries[3])  # its view is still registered
    for i, (entry, value) in enumerate(zip(entries, values)):
        s.release(entry)
        assert torch.equal(tensors[i].cpu(), value + 1 if i == 1 else value)
    assert torch.equal(views[1].cpu(), (values[1] + 1)[3:20, 1:].t())
    row = s.eviction_stats()
    assert row["resident_bytes"] == 0 and row["spilled"] == row["restored"] >= 5
    assert row["bytes_spilled"] == row["spilled"] * size


def test_memory_is_given_back(device):
    s = Scheduler(device)
    s.enable_eviction(limit=0)
    before = torch.aule.memory_allocated()
    tensor = torch.ones(1 << 20, device=device)
    assert torch.aule.memory_allocated() == before + (4 << 20)
    entry = s.register(tensor)
    assert torch.aule.memory_allocated() == before and tensor.shape == (1 << 20,) and not entry.resident
    task = s.submit(lambda: tensor.sum().item(), uses=[entry])
    s.run()
    assert s.result(task) == 1 << 20 and entry.resident  # nothing was needed in its place


def test_an_operator_on_an_evicted_tensor_raises(device):
    s = Scheduler(device)
    s.enable_eviction(limit=0)
    tensor = torch.randn(5, 7, device=device)
    view = tensor[2:].t()
    s.register(tensor)
    index = torch.tensor([1], device=device)
    for use in (lambda: tensor + 1, lambda: view.sum(), lambda: tensor.cpu(), lambda: tensor.zero_(),
                lambda: view @ tensor[2:], lambda: torch.cat([tensor, tensor]), lambda: tensor[index],
                lambda: tensor.copy_(torch.ones(5, 7)), lambda: tensor.copy_(tensor.t().reshape(5, 7)),
                lambda: torch.softmax(view, 0), lambda: view.contiguous()):  # fmt: skip
        with pytest.raises(RuntimeError, match=WAITS):
            use()
    assert tensor[:0].sum().item() == 0


@pytest.mark.skipif(
    not _C.evicted_storages_refuse, reason="with this torch operators alone refuse evicted tensors (docs/use/limits.md)"
)
def test_whoever_reaches_the_storage_of_an_evicted_tensor_is_told(device):
    s = Scheduler(device)
    s.enable_eviction(limit=0)
    value = torch.randn(5, 7)
    tensor = value.to(device)
    view, leaf = tensor[1:], torch.nn.Parameter(tensor)
    size = tensor.untyped_storage().nbytes()
    s.register(tensor)
    bytes_ = tensor.untyped_storage()
    assert bytes_.nbytes() == size

    def alias(elements=35):
        return torch.empty(0, device=device).set_(bytes_, 0, (elements,), (1,))

    for use in (lambda: copy.deepcopy(tensor), lambda: copy.deepcopy(leaf), lambda: copy.deepcopy(bytes_),
                lambda: pickle.dumps(tensor), lambda: pickle.dumps(view), lambda: torch.save(tensor, io.BytesIO()),
                lambda: torch.save({"w": leaf}, io.BytesIO()), alias, lambda: alias(2 * size), lambda: tensor.cpu(),
                lambda: tensor.resize_(6, 7), lambda: bytes_.resize_(4 * size), lambda: bytes_.resize_(0),
                bytes_.cpu, bytes_.clone, lambda: bytes_.fill_(0), lambda: bytes_[0], bytes_.tolist, bytes_.data_ptr,
                lambda: bytes_.copy_(torch.UntypedStorage(size)), tensor.data_ptr,
                lambda: torch.utils.dlpack.to_dlpack(tensor), lambda: torch.from_dlpack(tensor), tensor.tolist,
                lambda: tensor.data.clone(), lambda: tensor.numpy(force=True), lambda: repr(tensor),
                lambda: pickle.loads(ForkingPickler.dumps(tensor)), lambda: leaf.data.cpu()):  # fmt: skip
        with pytest.raises(RuntimeError, match=WAITS):
            use()
    assert tensor.shape == (5, 7) and bytes_.nbytes() == size  # refused whole
    other = torch.empty(3, device=device)
    with pytest.raises(RuntimeError, match=WAITS):
        other.set_(bytes_, 0, (99, 7), (7, 1))
    assert other.fill_(2).tolist() == [2, 2, 2]
    task = s.submit(lambda: tensor + 1, uses=[tensor])
    s.run()
    assert torch.equal(s.result(task).cpu(), value + 1) and torch.equal(alias().view(5, 7).cpu(), value)
    assert torch.equal(copy.deepcopy(leaf).cpu(), value)


def test_a_task_may_resize_what_it_names(device):
    s = Scheduler(device)
    s.enable_eviction(limit=0)
    tensor, other = torch.ones(64, device=device), torch.ones(2, device=device)
    entry = s.register(tensor)
    s.submit(lambda: tensor.resize_(256).fill_(3), uses=[entry])
    s.run()
    s.register(other)
    assert not entry.resident and entry.bytes == 1024
    s.submit(lambda: tensor.untyped_storage().resize_(0), uses=[entry])
    s.run()
    assert s.register(other) is not entry and s.eviction_stats()["resident_bytes"] == 0
    s.release(entry)


@pytest.mark.parametrize("how", ["close", "del", "cycle"])
def test_a_scheduler_that_ends_brings_its_tensors_back(device, how):
    s = Scheduler(device)
    values, tensors = made(device)
    s.enable_eviction(limit=0)
    entries = [s.register(t) for t in tensors]
    view = tensors[0][3:]
    del tensors[0]
    assert not any(entry.resident for entry in entries)
    kept = entries[1]
    if how == "close":
        task = s.submit(lambda: 1)
        with pytest.raises(RuntimeError, match="1 tasks? ha"):
            s.close()
        assert s.cancel(task)
        s.close()
        assert s.eviction_stats()["resident_bytes"] == 0
        with pytest.raises(ValueError, match="once"):
            s.release(kept)
    elif how == "cycle":
        s.create_context("a")
    del s, entries
    gc.collect()
    assert kept.resident and torch.equal(view.cpu(), values[0][3:])
    assert all(torch.equal(t.cpu(), v) for t, v in zip(tensors, values[1:]))
    Scheduler(device).enable_eviction()


def test_what_nobody_has_does_not_come_back(device):
    s = Scheduler(device)
    s.enable_eviction(limit=0)
    s.register(torch.ones(1 << 20, device=device))
    moved = s._pool.counts
    del s
    assert moved["spilled"] == 1 and moved["restored"] == 0


def test_a_tensor_is_registered_until_its_views_are_released(device):
    s, other = Scheduler(device), Scheduler(device)
    s.enable_eviction(limit=0)
    other.enable_eviction()
    tensor = torch.ones(6, device=device)
    entry = s.register(tensor)
    assert s.register(tensor[2:]) is entry
    with pytest.raises(ValueError, match="another scheduler"):
        other.register(tensor)
    s.release(entry)
    task = s.submit(lambda: tensor.sum().item(), uses=[tensor])
    s.run()
    assert s.result(task) == 6
    s.release(entry)
    with pytest.raises(ValueError, match="expected uses of tensors that were registered"):
        s.submit(lambda: 1, uses=[tensor])
    with pytest.raises(ValueError, match="once"):
        s.release(entry)
    other.release(other.register(tensor))


def test_what_a_running_task_uses_stays(device):
    s = Scheduler(device)
    a, b = s.create_context("a"), s.create_context("b")
    values, tensors = made(device, 2, (200, 200))
    s.enable_eviction(limit=tensors[0].untyped_storage().nbytes())
    first, second = (s.register(t) for t in tensors)

    def slow(x):
        for _ in range(40):
            y = x @ x
        return y

    tasks = [s.submit(lambda: slow(tensors[0]), uses=[first], context=a),
             s.submit(lambda: slow(tensors[1]), uses=[second], context=b)]  # fmt: skip
    assert s.step() == tasks and first.resident and second.resident  # above the limit
    with pytest.raises(RuntimeError, match=f"task {tasks[0]} names"):
        s.release(first)
    s.run()
    for task, value in zip(tasks, values):
        torch.testing.assert_close(s.result(task).cpu(), value @ value, rtol=1e-3, atol=1e-3)
    s.register(torch.ones(3, device=device))
    assert not first.resident and s.eviction_stats()["resident_bytes"] <= second.bytes


def test_what_a_graph_has_used_stays(device):
    s = Scheduler(device)
    s.enable_eviction(limit=1 << 30)
    value = torch.randn(6, 5)
    tensor, other = value.to(device), torch.ones(8, device=device)
    s.register(tensor)
    s.register(other)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        out = tensor * 2
        assert _C.in_a_graph(0, other.data_ptr(), 32)  # yes while one is captured
    s.enable_eviction(limit=0)
    entries = [s.register(t) for t in (tensor, other)]
    assert [entry.resident for entry in entries] == [True, False]
    graph.replay()
    torch.testing.assert_close(out.cpu(), value * 2)
    graph.reset()
    assert not s.register(tensor).resident


def test_no_room_to_restore_fails_the_task_alone(device):
    s = Scheduler(device)
    s.enable_eviction(limit=0)
    large, small = torch.ones(24 << 20, dtype=torch.uint8, device=device), torch.ones(4, device=device)
    entry, total = s.register(large), torch.aule.mem_get_info()[1]
    failing = s.submit(lambda: large.sum(), uses=[entry])
    fine = s.submit(lambda: small + 1)
    torch.aule.empty_cache()
    torch.aule.set_per_process_memory_fraction((torch.aule.memory_reserved() + (4 << 20)) / total)
    try:
        s.run()
    finally:
        torch.aule.set_per_process_memory_fraction(1.0)
    with pytest.raises(torch.OutOfMemoryError):
        s.result(failing)
    assert s.stats(failing)["state"] == "FAILED" and s.result(fine).sum().item() == 8
    again = s.submit(lambda: large.sum(dtype=torch.int64).item(), uses=[entry])
    s.run()
    assert s.result(again) == 24 << 20


def test_wrong_arguments_raise(device):
    s, x = Scheduler(device), torch.ones(3, device=device)
    for call in (lambda: s.register(x), lambda: s.submit(lambda: 1, uses=[x]), s.eviction_stats):
        with pytest.raises(RuntimeError, match=r"expected enable_eviction\(\)"):
            call()
    with pytest.raises(ValueError, match="limit of at least 0"):
        s.enable_eviction(-1)
    s.enable_eviction()
    for bad in (torch.ones(3), torch.ones(0, device=device), torch.eye(3, device=device).to_sparse()):
        with pytest.raises(ValueError, match="register: expected"):
            s.register(bad)
    for bad in (x, 5, None, torch.eye(3, device=device).to_sparse()):
        with pytest.raises(ValueError, match="submit: expected uses of tensors that were registered"):
            s.submit(lambda: 1, uses=[bad])
    with pytest.raises(ValueError, match="once"):
        s.release(x)
    entry = s.register(x)
    s.release(entry)
    with pytest.raises(ValueError, match="once"):
        s.release(entry)


def test_a_simulation_counts():
    s = Scheduler(simulate=True)
    s.enable_eviction(limit=100)
    entries = [s.register(torch.ones(20)) for _ in range(2)]
    assert [entry.resident for entry in entries] == [False, True]
    s.submit(lambda: 1, uses=[entries[0]])
    s.run()
    assert [entry.resident for entry in entries] == [True, False]
    assert s.eviction_stats() == {"spilled": 2, "restored": 1, "bytes_spilled": 160, "bytes_restored": 80,
                                  "resident_bytes": 80}  # fmt: skip
