"""Inputs of captured calls (torch_aule.compile.replay): layouts, sizes, addresses, what is written."""

import pytest
import torch

from captured_functions import graphed, warm
from helpers import assert_close
from torch_aule.compile.replay import MOST_ALIVE, WARM_UPS

pytestmark = pytest.mark.validated

LAYOUTS = {
    "dense": lambda t: t,
    "transposed": lambda t: t.t(),
    "offset": lambda t: t[1:, 2:],
    "expanded": lambda t: t[:1].expand(9, -1),
    "wide gaps": lambda t: t[::4, ::3],
    "no elements": lambda t: t[:0],
    "0-d": lambda t: t[2, 3],
    "overlapping": lambda t: t.as_strided((4, 6), (2, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_inputs_of_any_layout_are_copied(device, layout, dtype):
    f = graphed(lambda x: x + x if x.dtype != torch.bool else ~x)
    for step in range(5):
        t = torch.randn(9, 12).mul(8).to(dtype)
        x = LAYOUTS[layout](t)
        y = f([LAYOUTS[layout](t.to(device))])[0]
        assert_close(y, x + x if dtype != torch.bool else ~x)
        assert y.shape == x.shape and len(f.calls) == (step >= WARM_UPS)
        del y


def test_five_sizes_make_five_calls(device):
    f = graphed(lambda n, x: x.sum(0) * n)
    for _ in range(4):
        for n in (3, 4, 5, 6, 7):
            x = torch.randn(n, 10)
            assert_close(f([n, x.to(device)])[0], x.sum(0) * n, rtol=1e-4, atol=1e-5)
    assert len(f.calls) == 5
    # A number alone is enough: it may be a value in a kernel's params.
    x = torch.randn(3, 10)
    for _ in range(3):
        assert_close(f([8, x.to(device)])[0], x.sum(0) * 8, rtol=1e-4, atol=1e-5)
    assert len(f.calls) == 6


def test_static_inputs_are_read_where_they_are(device):
    f = graphed(lambda x, w: x * w, static=(1,))
    w = torch.ones(5, device=device)
    x = torch.arange(5.0, device=device)
    warm(f, x, w)
    f([x, w])
    w.fill_(3)
    assert f([x, w])[0].tolist() == [0, 3, 6, 9, 12] and len(f.calls) == 1


def test_a_static_input_that_moves_is_copied_in_the_end(device):
    f = graphed(lambda x, w: x * w, static=(1,))
    x = torch.arange(500.0, device=device)
    kept = []
    for i in range(12):
        w = torch.full((500,), float(i), device=device)
        kept.append(w)  # so that each has another address
        assert f([x, w])[0].tolist() == [i * v for v in range(500)]
    assert len(f.calls) == 1, "after the first address and another one, copies serve all"


def test_modules_that_share_code_get_calls_of_their_own(device):
    f = graphed(lambda x, w: x * w, static=(1,))
    weights = [torch.nn.Parameter(torch.full((5,), float(i), device=device)) for i in range(6)]
    x = torch.arange(5.0, device=device)
    for _ in range(4):
        for i, w in enumerate(weights):
            assert f([x, w])[0].tolist() == [i * v for v in range(5)]
    assert len(f.calls) == 6


def test_calls_that_are_chained_copy_nothing_between_them(device):
    first, second = graphed(lambda x: x + 1), graphed(lambda y: y * 2)
    for i in range(8):
        x = torch.full((100,), float(i), device=device)
        y = first([x])[0]
        address = y.data_ptr()
        z = second([y])[0]
        assert z.unique().tolist() == [2.0 * i + 2]
        if i > WARM_UPS:
            assert first.calls[0].outputs_alive == 1 and y.data_ptr() == address
        del y, z
    assert len(first.calls) == 1 and len(second.calls) == 1
    assert second.calls[0].commands == 1


def test_a_function_of_its_own_result(device):
    f = graphed(lambda x: x + 1)
    x = torch.zeros(100, device=device)
    for _ in range(20):
        (x,) = f([x])
    assert x.unique().tolist() == [20.0] and len(f.calls) <= MOST_ALIVE


def test_what_a_static_input_becomes_stays(device):
    def function(state, x):
        state.add_(x)
        return (state * 2,)

    state = torch.zeros(6, device=device)
    f = graphed(function, static=(0,), mutated_input_idxs=(0,))
    for i in range(6):
        assert f([state, torch.ones(6, device=device)])[0].unique().tolist() == [2.0 * (i + 1)]
    assert state.unique().tolist() == [6.0] and len(f.calls) == 1


# In-place operators refuse elements that share memory.
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("expanded", "overlapping")])
@pytest.mark.parametrize("said", [(0,), ()], ids=["said", "not said"])
def test_what_an_input_becomes_reaches_its_owner(device, layout, said):
    """Whether Inductor says that the input is written or not, and wherever it is."""

    def function(x):
        x.mul_(2)
        return x, x + 1

    f = graphed(function, mutated_input_idxs=said)
    kept = []
    for _ in range(20):
        t = torch.randn(9, 12)
        own = t.to(device)
        kept = [*kept[-4:], own]
        x, y = f([LAYOUTS[layout](own)])
        LAYOUTS[layout](t).mul_(2)
        assert_close(own, t)
        assert_close(x, LAYOUTS[layout](t))
        assert_close(y, LAYOUTS[layout](t) + 1)
        del x, y
    assert f.refused is None and 1 <= len(f.calls) <= 8


def test_caches_take_turns(device):
    def function(cache, x):
        cache.add_(x)
        return (cache * 2,)

    f = graphed(function, mutated_input_idxs=(0,))
    caches = [torch.zeros(100, device=device) for _ in range(20)]
    x = torch.ones(100, device=device)
    for cache in caches:
        for step in range(5):
            assert f([cache, x])[0].unique().tolist() == [2.0 * (step + 1)]
    assert all(cache.unique().tolist() == [5.0] for cache in caches) and len(f.calls) == 8


@pytest.mark.parametrize(
    "inputs, kwargs, word",
    [
        (lambda d: [torch.tensor(3.0)], {"mutated_input_idxs": (0,)}, "writes a tensor on the host"),
        (lambda d: [torch.zeros(3)], {}, "plain tensor"),
        (lambda d: [1.5], {}, "plain tensor"),
        (lambda d: [torch.Generator()], {}, "plain tensor"),
    ],
    ids=["written on the host", "input on the host", "float", "generator"],
)
def test_what_is_not_captured_runs_as_it_is(device, inputs, kwargs, word):
    ran = []
    f = graphed(lambda x: ran.append(1) or torch.ones(2), **kwargs)
    for _ in range(5):
        f(inputs(device))
    assert len(ran) == 5 and f.calls == [] and word in f.refused


def test_a_scalar_on_the_host_is_a_value(device):
    f = graphed(lambda x, s: x * s)
    x = torch.arange(4.0, device=device)
    for _ in range(6):
        assert f([x, torch.tensor(3.0)])[0].tolist() == [0, 3, 6, 9]
    assert len(f.calls) == 1
    for value in range(20):  # and one that differs each time runs without a graph in the end
        assert f([x, torch.tensor(float(value))])[0].tolist() == [value * v for v in range(4)]
    assert len(f.calls) <= MOST_ALIVE + 1 and f.refused is None
