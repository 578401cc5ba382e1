"""torch.compile(mode="reduce-overhead") on the device: graphs of compiled functions against eager."""

import gc
import random

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from helpers import assert_close
from torch_aule.compile import replay


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture
def made(monkeypatch):
    """The functions that Inductor asked graphs for."""
    functions = []
    original = replay.cudagraphify

    def cudagraphify(*args, **kwargs):
        functions.append(original(*args, **kwargs))
        return functions[-1]

    monkeypatch.setattr(replay, "cudagraphify", cudagraphify)
    return functions


def compiled(function, **kwargs):
    return torch.compile(function, mode="reduce-overhead", fullgraph=True, **kwargs)


def captured(functions):
    assert functions and all(f.refused is None for f in functions), [f.refused for f in functions]
    return [len(f.calls) for f in functions]


class Block(torch.nn.Module):
    def __init__(self, width=32, heads=2, dropout=0.0):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 64), torch.nn.GELU(), torch.nn.Linear(64, width))
        self.heads, self.dropout = heads, dropout

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return F.dropout(x + self.mlp(x), self.dropout, self.training)


def two_of(make, device):
    torch.manual_seed(torch.initial_seed() % 1000)
    one = make().to(device)
    two = make().to(device)
    two.load_state_dict(one.state_dict())
    return one, two


def steps_of(model, run, batches):
    # Not AdamW: the gradient of the keys' bias is 0, and AdamW would take steps of full length after its rounding.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for x in batches:
        optimizer.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_inference(device, made):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)).to(device).eval()
    f = compiled(model)
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(5, 16, device=device)
            assert_close(f(x), model(x).cpu(), rtol=1e-4, atol=1e-5)
    assert captured(made) == [1] and counters["aule"]["graphs_captured"] == 1


def test_training_of_a_block(device, made):
    model, plain = two_of(Block, device)
    batches = [torch.randn(2, 8, 32, device=device) for _ in range(7)]
    losses, expected = steps_of(model, compiled(model), batches), steps_of(plain, plain, batches)
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-4)
    for p, q in zip(model.parameters(), plain.parameters()):
        assert_close(p, q.cpu(), rtol=1e-2, atol=1e-3)
    assert captured(made) == [1, 1], "one graph for the forward and one for the backward"


def test_autocast(device, made):
    model, plain = two_of(Block, device)
    batches = [torch.randn(2, 8, 32, device=device) for _ in range(5)]
    with torch.autocast("aule", dtype=torch.bfloat16):
        losses, expected = steps_of(model, compiled(model), batches), steps_of(plain, plain, batches)
    torch.testing.assert_close(losses, expected, rtol=5e-2, atol=1e-2)
    assert all(n >= 1 for n in captured(made))


def test_forwards_before_backwards(device, made):
    """Gradients are accumulated over more forwards than there are graphs."""
    model, plain = two_of(lambda: torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh()), device)
    f = compiled(model)
    for _ in range(5):
        batches = [torch.randn(4, 8, device=device) for _ in range(6)]
        for net, run in ((model, f), (plain, plain)):
            net.zero_grad()
            losses = [run(x).square().sum() for x in batches]
            for loss in reversed(losses):
                loss.backward()
        for p, q in zip(model.parameters(), plain.parameters()):
            assert_close(p.grad, q.grad.cpu(), rtol=1e-3, atol=1e-4)
    forward, _ = made
    assert captured(made)[0] == replay.MOST_ALIVE and forward.calls[-1].copies


def test_gradients_that_stay(device, made):
    model, plain = two_of(lambda: torch.nn.Linear(8, 4), device)
    f = compiled(model)
    for _ in range(6):
        x = torch.randn(3, 8, device=device)
        f(x).square().sum().backward()
        plain(x).square().sum().backward()
    assert_close(model.weight.grad, plain.weight.grad.cpu(), rtol=1e-3, atol=1e-4)
    assert_close(model.bias.grad, plain.bias.grad.cpu(), rtol=1e-3, atol=1e-4)
    captured(made)


def test_inputs_that_are_not_aligned(device, made):
    f = compiled(lambda x, w: torch.relu(x) * w + 1)
    w = torch.nn.Parameter(torch.randn(65, device=device)[1:])
    for i in range(6):
        x = torch.randn(70)
        outputs = f(x.to(device)[i : i + 64], w)
        assert_close(outputs.detach(), torch.relu(x[i : i + 64]) * w.detach().cpu() + 1)
    captured(made)


def test_five_dynamic_sizes_make_five_graphs(device, made):
    f = compiled(lambda x: torch.softmax(x * 2, -1).sum(0), dynamic=True)
    for _ in range(4):
        for n in (3, 4, 5, 6, 7):
            x = torch.randn(n, 12)
            assert_close(f(x.to(device)), torch.softmax(x * 2, -1).sum(0), rtol=1e-4, atol=1e-5)
    assert captured(made) == [5]


def test_results_in_hand_never_change(device, made):
    def function(x, y):
        z = torch.sin(x) * y
        return z, z.t()[1:], (z + 1).sum(0)

    f = compiled(function)
    chance = random.Random(torch.initial_seed())
    held = []
    for _ in range(60):
        x, y = torch.randn(6, 5), torch.randn(6, 5)
        outputs = f(x.to(device), y.to(device))
        held += [pair for pair in zip(outputs, function(x, y)) if chance.random() < 0.4]
        del outputs
        chance.shuffle(held)
        for actual, expected in held:
            assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        del held[chance.randint(0, 8) :]
    assert captured(made)[0] <= replay.MOST_ALIVE


def test_memory_stays_over_many_steps(device):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(device)
    f = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 16, device=device)
    known = None
    for step in range(1000):
        optimizer.zero_grad()
        f(x).square().mean().backward()
        optimizer.step()
        if step == 20:
            torch.aule.synchronize()
            gc.collect()
            known = torch.aule.memory_reserved(), torch.aule.memory_allocated()
    torch.aule.synchronize()
    gc.collect()
    assert (torch.aule.memory_reserved(), torch.aule.memory_allocated()) == known


def test_dropout_differs_and_its_gradient_agrees(device, made):
    f = compiled(lambda x: F.dropout(x, 0.5) * 2)
    masks = []
    for _ in range(5):
        x = torch.ones(300, device=device, requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert torch.equal(x.grad.cpu(), y.detach().cpu())
        masks.append(y.detach().cpu() != 0)
        del y
    assert captured(made) == [1, 1]
    for i in range(4):
        assert not torch.equal(masks[i], masks[i + 1])


@pytest.mark.parametrize("forwards", [1, 6], ids=["in turn", "before the backwards"])
def test_attention_with_dropout(device, made, forwards):
    """The backward draws the forward's mask again, from the random state of the forward's graph."""

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)

    f = compiled(attention)
    batches = [
        [[torch.randn(1, 2, 16, 16, device=device, requires_grad=True) for _ in range(3)] for _ in range(forwards)]
        for _ in range(5)
    ]
    results = []
    for function in (f, attention):
        torch.aule.manual_seed(11)
        results.append([])
        for batch in batches:
            outputs = [function(*inputs) for inputs in batch]
            for y, inputs in reversed(list(zip(outputs, batch))):
                gradients = torch.autograd.grad(y.square().sum(), inputs)
                results[-1] += [t.detach().cpu() for t in (y, *gradients)]
            del outputs, y, gradients
    assert_close(*results, rtol=1e-3, atol=1e-4)
    assert not torch.equal(results[0][0], results[0][-4])
    assert captured(made)[0] == (1 if forwards == 1 else replay.MOST_ALIVE - 1)
    assert not any(c.copies for c in made[0].calls), "a copy would not keep the random state"


def test_a_checkpoint_draws_the_same_mask_again(device):
    from torch.utils.checkpoint import checkpoint

    def function(x, w):
        return checkpoint(lambda x, w: F.dropout(torch.sin(x @ w), 0.5), x, w, use_reentrant=False)

    f = compiled(function)
    w = torch.eye(16, device=device)
    for _ in range(5):
        x = torch.ones(64, 16, device=device, requires_grad=True)
        y = f(x, w)
        y.sum().backward()
        kept = y.detach().cpu() != 0
        assert 0.3 < kept.float().mean() < 0.7
        assert torch.equal(x.grad.cpu() != 0, kept)
        del y


def test_a_cache_that_the_model_writes(device, made):
    class Cached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(32, 16))
            self.linear = torch.nn.Linear(16, 16)

        def forward(self, x, position):
            self.keys.index_copy_(0, position, self.linear(x))
            return (self.keys @ x[0]).softmax(0)

    model, plain = two_of(Cached, device)
    f = compiled(model)
    with torch.no_grad():
        for i in range(8):
            x, position = torch.randn(1, 16, device=device), torch.tensor([i], device=device)
            assert_close(f(x, position), plain(x, position).cpu(), rtol=1e-4, atol=1e-5)
    assert captured(made) == [1]


def test_a_compiled_optimizer(device, made):
    def parameters():
        torch.manual_seed(1)
        return [torch.nn.Parameter(torch.randn(64, 8).to(device)) for _ in range(3)]

    ours, plain = parameters(), parameters()
    steps = []
    for group, use in ((ours, True), (plain, False)):
        optimizer = torch.optim.SGD(group, lr=0.1, momentum=0.9)
        steps.append(torch.compile(optimizer.step, mode="reduce-overhead") if use else optimizer.step)
    for _ in range(6):
        for group, step in zip((ours, plain), steps):
            for i, p in enumerate(group):
                p.grad = torch.sin(p.detach() + i)
            step()
    for p, q in zip(ours, plain):
        assert_close(p, q.cpu(), rtol=1e-4, atol=1e-5)


def test_parts_between_graph_breaks(device, made):
    def function(x):
        y = torch.sin(x) * 2
        torch._dynamo.graph_break()
        return (y + 1).relu(), y

    f = torch.compile(function, mode="reduce-overhead")
    for _ in range(6):
        x = torch.randn(30, 30)
        assert_close(f(x.to(device)), ((torch.sin(x) * 2 + 1).relu(), torch.sin(x) * 2))
    assert len(made) == 2 and all(n >= 1 for n in captured(made))


def test_an_operator_that_cannot_be_captured(device, made):
    @torch.library.custom_op("aule_test::waits", mutates_args=())
    def waits(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    waits.register_fake(torch.empty_like)
    f = compiled(lambda x: waits(x + 1) * 2)
    for _ in range(5):
        x = torch.rand(20)
        assert_close(f(x.to(device)), (x + 1) * (x + 1).sum() * 2, rtol=1e-4, atol=1e-4)
    assert any("its capture failed" in (g.refused or "") for g in made)
    assert not torch.aule.is_current_stream_capturing() and counters["inductor"]["cudagraph_skips"] >= 1


def test_a_written_input(device, made):
    f = compiled(lambda x: x.add_(1).mul(2))
    kept = []
    for _ in range(12):
        x = torch.zeros(90, device=device)
        assert f(x).unique().tolist() == [2] and x.unique().tolist() == [1]
        kept = [*kept[-2:], x]
    captured(made)


def test_a_buffer_that_is_written_is(device, made):
    model, plain = two_of(lambda: torch.nn.BatchNorm1d(6), device)
    f = compiled(model)
    for _ in range(6):
        x = torch.randn(7, 6, device=device)
        assert_close(f(x).detach(), plain(x).detach().cpu(), rtol=1e-3, atol=1e-4)
    assert_close(model.running_var, plain.running_var.cpu(), rtol=1e-4, atol=1e-5)
    assert model.num_batches_tracked.item() == 6
    assert captured(made)[0] == 1


def test_blocks_that_share_their_code(device, made):
    layers = torch.nn.ModuleList(Block() for _ in range(3)).to(device).eval()
    plain = torch.nn.ModuleList(Block() for _ in range(3)).to(device).eval()
    plain.load_state_dict(layers.state_dict())
    for layer in layers:
        layer.compile(mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(2, 8, 32, device=device)
            y = x
            for layer in layers:
                x = layer(x)
            for layer in plain:
                y = layer(y)
            assert_close(x, y.cpu(), rtol=1e-3, atol=1e-4)
    assert sum(captured(made)) >= 3


def test_memory_comes_back(device):
    def once():
        f = compiled(lambda x: torch.relu(x) + 1)
        x = torch.randn(1 << 12, device=device)
        kept = [f(x) for _ in range(6)]
        torch._dynamo.reset()
        del f
        gc.collect()
        return kept, x

    kept, x = once()
    expected = torch.relu(x.cpu()) + 1
    for y in kept:
        assert_close(y, expected)
    del kept, x, y
    gc.collect()
    before = torch.aule.memory_allocated()
    once()
    gc.collect()
    assert torch.aule.memory_allocated() == before


class FakeGraph:
    def __init__(self, *types):
        self.device_types = set(types)


@pytest.mark.parametrize("name", ["cudagraph_post_compile", "cudagraph_partition_post_compile"])
def test_graphs_of_cuda_take_their_own_way(monkeypatch, name):
    """With stand-ins for upstream's functions: nothing of ours is on the way of a CUDA graph."""
    from torch._inductor import compile_fx, cudagraph_utils, output_code

    seen = []

    def post_compile(example_inputs, compiled_graph, *rest):
        compile_fx.cudagraphify("model", (1,), device_index=0)
        output_code.maybe_handle_backward_generation(compiled_graph, None)

    replaced = {
        (compile_fx, "cudagraphify"): lambda *args, **kwargs: seen.append(("cudagraphify", args, kwargs)),
        (output_code, name): post_compile,
        (output_code, "maybe_handle_backward_generation"): lambda graph, index: seen.append(("backward", graph)),
        (output_code, "maybe_realign_inputs"): lambda ran, graph, *rest: (bool(ran), *rest),
        (cudagraph_utils, "check_multiple_devices_or_any_cpu_nodes"): lambda mapping: f"asked: {len(mapping)}",
    }
    for (module, attribute), stand_in in replaced.items():
        monkeypatch.setattr(module, attribute, stand_in)
    ours = []
    monkeypatch.setattr(replay, "cudagraphify", lambda *args, **kwargs: ours.append((args, kwargs)))
    replay.install_graphs()
    replay.install_graphs()  # and a second time changes nothing

    cuda, aule = FakeGraph("cuda"), FakeGraph("aule", "cpu")
    getattr(output_code, name)([], cuda, None, {}, None)
    assert seen == [("cudagraphify", ("model", (1,)), {"device_index": 0}), ("backward", cuda)] and not ours
    seen.clear()
    getattr(output_code, name)([], aule, None, {}, None)
    assert ours == [(("model", (1,)), {"device_index": 0})] and not seen
    compile_fx.cudagraphify("other", device_index=1)  # outside: CUDA's
    assert len(ours) == 1 and seen[0][1] == ("other", ())

    assert output_code.maybe_realign_inputs(True, cuda, [0]) == (True, [0])
    assert output_code.maybe_realign_inputs(True, aule, [0]) == (False, [0])

    check = cudagraph_utils.check_multiple_devices_or_any_cpu_nodes
    devices = {d: None for d in (torch.device("cuda:0"), torch.device("meta"))}
    assert check(devices) == "asked: 2"
    assert check({torch.device("aule:0"): None, torch.device("meta"): None}) is None
    assert check({torch.device("aule:0"): None, torch.device("cuda:0"): None}) == "asked: 2"
    assert check({torch.device("aule:0"): None, torch.device("aule:1"): None}) == "asked: 2"
    assert check({torch.device("aule:0"): None, torch.device("cpu"): None}) == "asked: 2"


def test_a_torch_without_a_door_warns_and_compiles_on(monkeypatch):
    from torch._inductor import output_code

    monkeypatch.delattr(output_code, "maybe_handle_backward_generation")
    with pytest.warns(UserWarning, match="runs without graphs.*maybe_handle_backward_generation"):
        replay.install_graphs()
