"""torch.aule.make_graphed_callables against the same training without graphs."""

import copy

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close
from torch_aule.backend import graphs

pytestmark = pytest.mark.validated


def pair_of(model, device):
    """The same model twice on the device."""
    model = model.to(device)
    return model, copy.deepcopy(model)


def train(model, batches, lr=0.05, loss_of=lambda y, t: F.mse_loss(y, t)):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for x, t in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def batches_on(device, count=5, rows=7, columns=6, out=3):
    return [(torch.randn(rows, columns).to(device), torch.randn(rows, out).to(device)) for _ in range(count)]


@pytest.mark.filterwarnings("error")
def test_training_as_without_graphs(device):
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3))
    model, plain = pair_of(net, device)
    batches = batches_on(device)
    calls = []
    forward = model.forward
    model.forward = lambda x: (calls.append(1), forward(x))[1]
    graphed = torch.aule.make_graphed_callables(model, (torch.randn(7, 6, device=device),))
    assert graphed is model
    captured = len(calls)
    assert captured == 3 + 1
    losses, expected = train(model, batches), train(plain, batches)
    assert len(calls) == captured, "no forward ran after the capture"
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for p, q in zip(model.parameters(), plain.parameters()):
        assert_close(p, q.cpu(), rtol=1e-3, atol=1e-4)


def test_gradients_of_arguments_and_unused_inputs(device):
    def f(x, y):
        return x * x + y, (x.detach() > 0).sum()

    x, y = (torch.randn(5, device=device, requires_grad=True) for _ in range(2))
    g = torch.aule.make_graphed_callables(f, (x.detach().clone().requires_grad_(), y.detach().clone()))
    out, count = g(x, y.detach())
    assert not count.requires_grad and count.item() == int((x > 0).sum())
    out.sum().backward()
    assert_close(x.grad, 2 * x.detach().cpu())

    def ignores(x, y):
        return x * 2

    samples = (torch.randn(5, device=device, requires_grad=True), torch.randn(5, device=device, requires_grad=True))
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.aule.make_graphed_callables(ignores, samples)
    assert not torch.aule.is_current_stream_capturing()
    g = torch.aule.make_graphed_callables(ignores, samples, allow_unused_input=True)
    x.grad = None
    g(x, y).sum().backward()
    assert x.grad.tolist() == [2] * 5 and y.grad is None


def test_nested_arguments_and_results(device):
    def f(pair, more):
        return {"sum": pair[0] + pair[1], "rest": [more["w"] * 2, "text", None]}

    sample = ((torch.zeros(4, device=device), torch.zeros(4, device=device)), {"w": torch.zeros(4, device=device)})
    g = torch.aule.make_graphed_callables(f, sample)
    a, b, w = (torch.randn(4) for _ in range(3))
    out = g((a.to(device), b.to(device)), {"w": w.to(device)})
    assert_close(out["sum"], a + b)
    assert_close(out["rest"][0], w * 2)
    assert out["rest"][1:] == ["text", None]


def test_several_callables_share_memory(device):
    parts = [torch.nn.Linear(6, 12), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(12, 3))]
    model, plain = pair_of(torch.nn.Sequential(*parts), device)
    samples = ((torch.randn(7, 6, device=device),), (torch.randn(7, 12, device=device, requires_grad=True),))
    handle = torch.aule.graph_pool_handle()
    first, second = torch.aule.make_graphed_callables((model[0], model[1]), samples, pool=handle)
    assert first is model[0] and second is model[1]
    pools = {s["segment_pool_id"] for s in torch.aule.memory_snapshot() if s["segment_pool_id"] != (0, 0)}
    assert handle in pools
    batches = batches_on(device)
    losses, expected = train(model, batches), train(plain, batches)
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)


def test_the_other_state_runs_the_own_forward(device):
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.9)).to(device)
    model = torch.aule.make_graphed_callables(model, (torch.randn(50, 6, device=device),))
    x = torch.randn(50, 6, device=device)
    first, second = model(x).detach().cpu(), model(x).detach().cpu()
    assert not torch.equal(first, second) and (first == 0).float().mean() > 0.7
    model.eval()
    assert_close(model(x), model[0](x).cpu(), rtol=1e-5, atol=1e-5)
    assert model(torch.randn(3, 6, device=device)).shape == (3, 6)
    model.train()
    assert (model(x) == 0).float().mean().item() > 0.7


def test_dropout_and_its_gradient_agree(device):
    def f(x):
        return F.dropout(x, 0.5)

    g = torch.aule.make_graphed_callables(f, (torch.ones(400, device=device, requires_grad=True),))
    masks = []
    for _ in range(3):
        x = torch.ones(400, device=device, requires_grad=True)
        y = g(x)
        mask = y.detach().cpu()
        y.sum().backward()
        assert torch.equal(x.grad.cpu(), mask), "the gradient passes where the forward did"
        masks.append(mask)
    assert not torch.equal(masks[0], masks[1]) and not torch.equal(masks[1], masks[2])


def test_attention_with_dropout(device):
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    def fresh(ones=False):
        make = torch.ones if ones else torch.randn
        return tuple(make(1, 2, 16, 8, device=device).requires_grad_() for _ in range(3))

    g = torch.aule.make_graphed_callables(f, fresh())
    q, k, v = fresh()
    torch.aule.manual_seed(3)
    results = []
    for function in (g, g, f, f):
        if function is f and len(results) == 2:
            torch.aule.manual_seed(3)
        y = function(q, k, v)
        gradients = torch.autograd.grad(y.square().sum(), (q, k, v))
        results.append([t.detach().cpu() for t in (y, *gradients)])
    for i in range(2):
        assert_close(results[i], results[i + 2], rtol=1e-4, atol=1e-5)
    assert not torch.equal(results[0][0], results[1][0])


def test_autocast(device):
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    model, plain = pair_of(net, device)
    sample = (torch.randn(7, 6, device=device),)
    with torch.autocast("aule", dtype=torch.bfloat16):
        with pytest.raises(RuntimeError, match="cache_enabled=False"):
            torch.aule.make_graphed_callables(model, sample)
    batches = batches_on(device)
    with torch.autocast("aule", dtype=torch.bfloat16, cache_enabled=False):
        model = torch.aule.make_graphed_callables(model, sample)
        assert model(batches[0][0]).dtype == torch.bfloat16
        scaled = lambda y, t: F.mse_loss(y.float(), t)  # noqa: E731
        losses, expected = train(model, batches, loss_of=scaled), train(plain, batches, loss_of=scaled)
    torch.testing.assert_close(losses, expected, rtol=2e-2, atol=2e-2)


def test_gradients_are_scaled_outside(device):
    """GradScaler and a graphed part: as in the CUDA notes, the scaler stays outside the graph."""
    model = torch.nn.Linear(6, 3).to(device)
    plain = copy.deepcopy(model)
    with torch.autocast("aule", dtype=torch.float16, cache_enabled=False):
        model = torch.aule.make_graphed_callables(model, (torch.randn(7, 6, device=device),))
    batches = batches_on(device)
    for net in (model, plain):
        scaler, optimizer = torch.amp.GradScaler("aule"), torch.optim.SGD(net.parameters(), lr=0.1)
        for x, t in batches:
            optimizer.zero_grad()
            with torch.autocast("aule", dtype=torch.float16, cache_enabled=False):
                loss = F.mse_loss(net(x).float(), t)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    for p, q in zip(model.parameters(), plain.parameters()):
        assert_close(p, q.cpu(), rtol=1e-2, atol=1e-3)


def test_running_statistics_move_on(device):
    model, plain = pair_of(torch.nn.BatchNorm1d(6), device)
    model = torch.aule.make_graphed_callables(model, (torch.randn(7, 6, device=device),), num_warmup_iters=0)
    for x, _ in batches_on(device):
        assert_close(model(x), plain(x).detach().cpu(), rtol=1e-4, atol=1e-5)
    assert_close(model.running_mean, plain.running_mean.cpu())
    assert model.num_batches_tracked.item() == plain.num_batches_tracked.item() == 5


def test_what_is_refused(device):
    x = torch.randn(3, 6, device=device)
    hooked = torch.nn.Linear(6, 3).to(device)
    hooked.register_forward_hook(lambda *args: None)
    with pytest.raises(ValueError, match="hooks"):
        torch.aule.make_graphed_callables(hooked, (x,))
    buffered = torch.nn.Linear(6, 3).to(device)
    buffered.register_buffer("b", torch.zeros(2, requires_grad=True))
    with pytest.raises(ValueError, match="buffers"):
        torch.aule.make_graphed_callables(buffered, (x,))
    with pytest.raises(TypeError, match="tensors only"):
        torch.aule.make_graphed_callables(lambda a, b: a, (x, 3))
    with pytest.raises(ValueError, match="2 callables"):
        torch.aule.make_graphed_callables((torch.sin, torch.cos), ((x,),))
    with pytest.raises(RuntimeError, match="not possible while a graph"):
        torch.aule.make_graphed_callables(lambda a: a * a.sum().item(), (x,))
    assert (x + 1).sum().item() == pytest.approx(x.sum().item() + 18, rel=1e-3)
    g = torch.aule.make_graphed_callables(lambda a: a * 2, (x.clone(),))
    with pytest.raises(ValueError, match="captured as"):
        g(torch.randn(1, 6, device=device))
    with pytest.raises(ValueError, match="1 tensors, got 2"):
        g(x, x)


def test_twice_differentiable_it_is_not(device):
    x = torch.randn(4, device=device, requires_grad=True)
    g = torch.aule.make_graphed_callables(lambda a: a.square(), (x.detach().clone().requires_grad_(),))
    weights = torch.ones(4, device=device, requires_grad=True)
    (first,) = torch.autograd.grad((g(x) * weights).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        first.sum().backward()


def test_hooks_added_afterwards_run(device):
    model = torch.aule.make_graphed_callables(torch.nn.Linear(6, 3).to(device), (torch.randn(2, 6, device=device),))
    seen = []
    model.register_forward_hook(lambda *args: seen.append(1))
    model(torch.randn(2, 6, device=device))
    assert seen == [1]


def test_memory_is_given_back(device):
    def once():
        model = torch.nn.Linear(64, 64).to(device)
        g = torch.aule.make_graphed_callables(model, (torch.randn(8, 64, device=device),))
        g(torch.randn(8, 64, device=device)).sum().backward()

    import gc

    once()
    gc.collect()
    before = torch.aule.memory_allocated()
    for _ in range(3):
        once()
        gc.collect()
    assert torch.aule.memory_allocated() == before


@pytest.mark.parametrize("kind", list(dict.fromkeys([torch.aule.Graph, graphs._Graph])))
def test_a_graph_of_each_kind(device, kind):
    """torch.accelerator.Graph, and what stands in for it before torch 2.12."""
    x = torch.zeros(10, device=device)
    graph = kind()
    with torch.aule.graph(graph, pool=torch.aule.graph_pool_handle()):
        x += 1
        noise = torch.rand(10, device=device)
    torch.aule.synchronize()
    assert x.sum().item() == 0 and len(graph.pool()) == 2
    drawn = []
    for _ in range(2):
        graph.replay()
        drawn.append(noise.cpu())
    assert x.unique().tolist() == [2.0] and not torch.equal(*drawn)
    graph.reset()
    with torch.aule.graph(graph):
        x += 10
    graph.instantiate()
    graph.replay()
    assert x.unique().tolist() == [12.0]


def test_one_capture_at_a_time(device):
    from torch_aule import _C

    one, two = _C.Graph(), _C.Graph()
    streams = torch.aule.Stream(), torch.aule.Stream()
    with torch.aule.stream(streams[0]):
        one.capture_begin()
        try:
            with torch.aule.stream(streams[1]):
                with pytest.raises(RuntimeError, match="another graph is being captured"):
                    two.capture_begin()
                y = torch.rand(5, device=device).cpu()  # no number of the capture's
        finally:
            one.capture_end()
    assert 0 < y.max() < 1
    assert one.commands == 0


def test_the_random_state_is_not_touched_in_a_capture(device):
    """It would be the state of the capture in every replay, and a checkpoint's second forward would draw others."""
    from torch_aule import _C

    graph = _C.Graph()
    with torch.aule.stream(torch.aule.Stream()):
        graph.capture_begin()
        try:
            for touch in (
                torch.aule.get_rng_state,
                lambda: torch.aule.manual_seed(1),
                lambda: torch.rand(3, device=device, generator=torch.Generator(device)),
            ):
                with pytest.raises(RuntimeError, match="being captured"):
                    touch()
        finally:
            graph.capture_end()
    torch.aule.get_rng_state()
