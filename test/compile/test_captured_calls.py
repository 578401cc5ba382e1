"""Captured calls of compiled functions (torch_aule.compile.replay) on plain functions of lists, without Inductor."""

import gc
import random

import pytest
import torch

from captured_functions import DEVICE, graphed, random_on, warm
from helpers import assert_close, in_threads
from torch_aule import _C
from torch_aule.compile.replay import MOST_ALIVE, WARM_UPS

pytestmark = pytest.mark.validated


def test_two_calls_run_as_they_are_then_one_is_captured(device):
    ran = []
    f = graphed(lambda x: (ran.append(1), x * 2 + 1)[1])
    for i in range(6):
        x = torch.randn(33)
        inputs = [x.to(device)]
        (y,) = f(inputs)
        assert inputs == [], "the list of inputs is emptied, as a compiled function does"
        assert_close(y, x * 2 + 1)
        del y
        assert len(ran) == min(i + 1, WARM_UPS + 1) and len(f.calls) == (i >= WARM_UPS)
    assert f.calls[0].commands >= 1 and f.calls[0].outputs_alive == 0


def test_an_output_that_is_held_never_changes(device):
    f = graphed(lambda x: x * x)
    warm(f, random_on(device, 70))
    held, expected = [], []
    for _ in range(3 * MOST_ALIVE):
        x = torch.randn(70)
        held.append(f([x.to(device)])[0])
        expected.append(x * x)
        for y, e in zip(held, expected):
            assert_close(y, e)
    assert len(f.calls) == MOST_ALIVE and [c.copies for c in f.calls] == [False] * (MOST_ALIVE - 1) + [True]
    del y
    held.clear()
    assert [c.outputs_alive for c in f.calls] == [0] * MOST_ALIVE
    f([random_on(device, 70)])
    assert len(f.calls) == MOST_ALIVE


def hold_a_view(y):
    kept = y[2:5].t()[1:]
    return lambda: kept, lambda e: e[2:5].t()[1:]


def hold_the_storage(y):
    kept = y.untyped_storage()
    return lambda: torch.empty(0, device=DEVICE).set_(kept, 0, (8, 9)), lambda e: e


def hold_through_autograd(y):
    w = torch.ones(8, 9, device=DEVICE, requires_grad=True)
    kept = (w * y).sum()
    return lambda: torch.autograd.grad(kept, w, retain_graph=True)[0], lambda e: e


def test_a_loss_that_is_held_needs_no_second_call(device):
    f = graphed(lambda x: (x.sum(), x * 2))
    held, expected = [], []
    for _ in range(10):
        x = torch.randn(1000)
        held.append(f([x.to(device)])[0])
        expected.append(x.sum())
    assert_close(held, expected, rtol=1e-4, atol=1e-3)
    assert len(f.calls) == 1 and f.calls[0].outputs_alive == 0


@pytest.mark.parametrize("hold", [hold_a_view, hold_the_storage, hold_through_autograd])
def test_whatever_reaches_an_output_keeps_it(device, hold):
    f = graphed(lambda x: (x + 1, x.sum()))
    x = torch.randn(8, 9)
    warm(f, x.to(device))
    read, expected = hold(f([x.to(device)])[0])
    gc.collect()
    assert f.calls[0].outputs_alive == 1
    for _ in range(3):
        f([random_on(device, 8, 9)])
    assert_close(read(), expected(x + 1))
    del read
    gc.collect()
    assert f.calls[0].outputs_alive == 0


def test_random_holds_and_releases(device):
    """Against the same function run as it is, over random inputs, shapes and lifetimes."""

    def function(x, w, n):
        y = x @ w
        return y, y.t()[n:], (y * n).sum(0), n, None

    chance = random.Random(torch.initial_seed())
    w = torch.randn(16, 16)
    w_device = w.to(device)
    f = graphed(function, static=(1,))
    held = {}
    for step in range(150):
        x, n = torch.randn(chance.choice([4, 5]), 16), chance.choice([1, 2])
        outputs, expected = f([x.to(device), w_device, n]), function(x, w, n)
        assert outputs[3] == n and outputs[4] is None and len(outputs) == 5
        for i in range(3):
            if chance.random() < 0.5:
                held[step, i] = (outputs[i].view(outputs[i].shape), expected[i])
        del outputs
        for key in chance.sample(sorted(held), len(held) // 2):
            assert_close(*held[key], rtol=1e-4, atol=1e-5)
            del held[key]
        if len(held) > 6:
            held.clear()
    for y, e in held.values():
        assert_close(y, e, rtol=1e-4, atol=1e-5)
    assert len(f.calls) <= 4 * MOST_ALIVE


@pytest.mark.parametrize("rows", [5, 50])
def test_outputs_that_share_memory_share_it_again(device, rows):
    def function(x):
        y = x + 1
        return y, y[1:], y

    f = graphed(function)
    warm(f, random_on(device, rows, 3))
    for _ in range(2):
        a, b, c = f([torch.zeros(rows, 3, device=device)])
        a[1] = 7
        assert b[0].tolist() == [7, 7, 7] and c[1].tolist() == [7, 7, 7]
        assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() == c.untyped_storage().data_ptr()
        assert b.storage_offset() == 3
        del b, c  # a is held: the second round takes another call


def test_outputs_that_are_inputs_come_back_as_those(device):
    def function(x, w):
        return x, w, x[1:], w.t(), x * w

    f = graphed(function, static=(1,))
    w = random_on(device, 9, 9)
    warm(f, random_on(device, 9, 9), w)
    for _ in range(2):
        base = random_on(device, 11, 9)
        x = base[2:]
        outputs = f([x, w])
        assert outputs[0] is x and outputs[1] is w
        assert outputs[2].data_ptr() == x.data_ptr() + 36 and outputs[3].data_ptr() == w.data_ptr()
        assert outputs[2].storage_offset() == 27 and outputs[3].stride() == (1, 9)
        assert_close(outputs[4], x.cpu() * w.cpu())
        assert len(f.calls) == 1 and f.calls[0].outputs_alive == 1
        del outputs


def test_a_constant_comes_back_as_itself(device):
    constant = torch.arange(4.0, device=device)
    f = graphed(lambda x: (constant, x + constant))
    warm(f, torch.zeros(4, device=device))
    for _ in range(2):
        c, y = f([torch.ones(4, device=device)])
        assert c is constant or c.data_ptr() == constant.data_ptr()
        assert y.tolist() == [1, 2, 3, 4]
    assert constant.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("fault", ["item", "nonzero", "own error", "host tensor"])
def test_a_capture_that_fails_leaves_all_in_order(device, fault):
    armed = []

    def function(x):
        y = x + 1
        if fault == "item":
            return y * (x.sum().item() * 0 + 1)
        if fault == "nonzero":
            return y + x.nonzero().shape[0] * 0
        if fault == "own error" and armed:
            raise ValueError("mine")
        if fault == "host tensor":
            return y, y.cpu()
        return y

    f = graphed(function)
    x = torch.randn(40)
    warm(f, x.to(device))
    armed.append(1)
    if fault == "own error":
        with pytest.raises(ValueError, match="mine"):
            f([x.to(device)])
        armed.clear()
    for _ in range(3):
        assert_close(f([x.to(device)])[0], x + 1)
    assert f.calls == [] and f.refused.startswith("its capture failed") and not torch.aule.is_current_stream_capturing()
    g = graphed(lambda x: x + 2)  # and others are captured
    warm(g, x.to(device))
    assert_close(g([x.to(device)])[0], x + 2)
    assert len(g.calls) == 1


def test_an_interrupt_is_no_reason_against_graphs(device):
    armed = []

    def function(x):
        if armed:
            raise KeyboardInterrupt
        return x + 1

    f = graphed(function)
    warm(f, torch.zeros(3, device=device))
    armed.append(1)
    with pytest.raises(KeyboardInterrupt):
        f([torch.zeros(3, device=device)])
    armed.clear()
    assert f([torch.zeros(3, device=device)])[0].tolist() == [1, 1, 1] and f.refused is None and len(f.calls) == 1


def test_inside_another_capture_the_work_joins_it(device):
    f = graphed(lambda x: x * 3)
    x = torch.ones(5, device=device)
    warm(f, x)
    f([x])
    graph = _C.Graph()
    with torch.aule.stream(torch.aule.Stream()):
        torch.aule.synchronize()
        graph.capture_begin()
        (y,) = f([x])
        graph.capture_end()
        x.fill_(2)
        graph.replay()
        assert y.tolist() == [6] * 5


def test_random_numbers_are_those_of_the_run_without_graphs(device):
    def function(x):
        return torch.nn.functional.dropout(x, 0.5), torch.rand_like(x)

    x = torch.ones(1000, device=device)
    f = graphed(function)
    warm(f, x)
    torch.aule.manual_seed(5)
    drawn = [[t.cpu() for t in f([x])] for _ in range(4)]
    torch.aule.manual_seed(5)
    expected = [[t.cpu() for t in function(x)] for _ in range(4)]
    assert len(f.calls) == 1
    for one, two in zip(drawn, expected):
        assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])
    assert not torch.equal(drawn[0][0], drawn[1][0])


def test_a_thousand_calls_take_no_more_memory(device):
    f = graphed(lambda x, w: (torch.relu(x @ w), (x @ w).sum(0)), static=(1,))
    w = random_on(device, 32, 32)
    held = []
    reserved = allocated = None
    for i in range(1000):
        held = [held[-1:], f([torch.ones(16, 32, device=device), w])[i % 2]]
        if i == 100:
            reserved, allocated = torch.aule.memory_reserved(), torch.aule.memory_allocated()
        if i > 100 and i % 100 == 0:
            assert torch.aule.memory_reserved() == reserved
            assert abs(torch.aule.memory_allocated() - allocated) <= 8192
    assert len(f.calls) <= MOST_ALIVE


def test_memory_goes_with_the_function_and_its_outputs(device):
    torch.aule.synchronize()
    gc.collect()
    before = torch.aule.memory_allocated()
    f = graphed(lambda x: (x + 1, x * 2))
    x = torch.arange(3000.0, device=device)
    warm(f, x)
    y, z = f([x])
    pool = f.calls[0].pool_bytes
    assert pool > 0
    del f, z
    gc.collect()
    assert_close(y, torch.arange(3000.0) + 1)
    other = torch.zeros(3000, device=device)  # does not take the output's place
    assert_close(y, torch.arange(3000.0) + 1)
    del y, x, other
    gc.collect()
    assert torch.aule.memory_allocated() == before


def test_streams_follow_each_other(device):
    f = graphed(lambda x: x + 1)
    x = torch.zeros(1 << 16, device=device)
    warm(f, x)
    streams = [torch.aule.Stream(), torch.aule.Stream()]
    for i in range(20):
        with torch.aule.stream(streams[i % 2]):
            streams[i % 2].wait_stream(streams[(i + 1) % 2])
            x = torch.full((1 << 16,), float(i), device=device)
            (y,) = f([x])
            total = y.sum()
            y.record_stream(streams[(i + 1) % 2])
            del y
            assert total.item() == (i + 1.0) * (1 << 16)


def test_threads(device):
    f = graphed(lambda x: (x * 2, x + 1))
    warm(f, torch.zeros(500, device=device))

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(30):
            x = torch.randn(500, generator=generator)
            y, z = f([x.to(device)])
            assert torch.equal(y.cpu(), x * 2) and torch.equal(z.cpu(), x + 1)

    in_threads(work, 3)
