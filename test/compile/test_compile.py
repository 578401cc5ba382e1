"""torch.compile with the backends that need no code generation, fake tensors, export, and custom device queries."""

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close, run_python


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_training_step(device, backend):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 12), torch.nn.GELU(), torch.nn.LayerNorm(12), torch.nn.Linear(12, 6)
    ).to(device)
    x = torch.randn(4, 6, device=device)
    expected = model(x)
    expected.square().sum().backward()
    gradients = [p.grad.cpu() for p in model.parameters()]
    model.zero_grad()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    actual = compiled(x)
    actual.square().sum().backward()
    assert_close(actual, expected.cpu(), rtol=1e-4, atol=1e-5)
    for p, g in zip(model.parameters(), gradients):
        assert_close(p.grad, g, rtol=1e-4, atol=1e-4)


def test_attention_stays_in_the_graph(device):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=backend, fullgraph=True)
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2

    q, k, v = (torch.randn(1, 2, 5, 8, device=device) for _ in range(3))
    out = f(q, k, v)
    assert_close(
        out, 2 * F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu(), is_causal=True), rtol=1e-4, atol=1e-5
    )
    assert len(graphs) == 1


def test_aot_eager_attention_with_gradients(device):
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    inputs = [torch.randn(1, 2, 5, 8) for _ in range(3)]
    dev = [t.to(device).requires_grad_() for t in inputs]
    cpu = [t.requires_grad_() for t in inputs]
    torch.compile(f, backend="aot_eager", fullgraph=True)(*dev).sum().backward()
    f(*cpu).sum().backward()
    for a, e in zip(dev, cpu):
        assert_close(a.grad, e.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_symbolic_sizes_trains(device, masked):
    """As a frame is traced the second time: the fused operator's gradients need shapes of symbolic sizes."""

    def run(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).square().sum()

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True, dynamic=True)
    for length in (17, 33):
        q, k, v = (torch.randn(2, 3, length, 16, requires_grad=True) for _ in range(3))
        mask = torch.randn(length, length) if masked else None
        expected = torch.autograd.grad(run(q, k, v, mask), (q, k, v))
        own = [x.detach().to(device).requires_grad_() for x in (q, k, v)]
        got = torch.autograd.grad(compiled(*own, mask.to(device) if masked else None), own)
        for a, e in zip(got, expected, strict=True):
            assert_close(a, e, rtol=1e-4, atol=1e-4)


def test_dynamic_shapes(device):
    f = torch.compile(lambda x: (x * 2).relu().sum(-1), backend="aot_eager", dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(2, n)
        assert_close(f(x.to(device)), f(x), rtol=1e-4, atol=1e-5)


def test_fake_tensors(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3, 4, device=device)
        y = torch.nn.functional.softmax(x @ x.t(), -1)
        assert y.device == torch.device("aule:0") and y.shape == (3, 3)


def test_export(device):
    class M(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x) + 1

    x = torch.randn(3, device=device)
    program = torch.export.export(M(), (x,))
    assert_close(program.module()(x), x.cpu().sin() + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
def test_convolutions_in_channels_last(device, dynamic):
    """The compiler must know how results lie: it takes flatten for a view or for a copy."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2), torch.nn.Flatten()
    )
    x = torch.randn(2, 4, 9, 8)
    model(x).square().sum().backward()
    expected = [p.grad for p in model.parameters()]
    model.zero_grad()
    model = model.to(device, memory_format=torch.channels_last)
    x = x.to(device).contiguous(memory_format=torch.channels_last)
    assert model[0](x).is_contiguous(memory_format=torch.channels_last)
    torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)(x).square().sum().backward()
    for p, e in zip(model.parameters(), expected):
        assert_close(p.grad, e, rtol=1e-3, atol=1e-4)


def test_a_compiled_product_says_nothing(device):
    """Neither that there are too few multiprocessors for Triton's templates, nor anything else."""
    done = run_python("""
import torch, torch_aule
a, b = torch.randn(64, 64, device="aule"), torch.randn(64, 64, device="aule")
c = torch.compile(lambda a, b: torch.relu(a @ b) + 1)(a, b)
torch.testing.assert_close(c.cpu(), torch.relu(a.cpu() @ b.cpu()) + 1, rtol=1e-4, atol=1e-4)
""", TORCHINDUCTOR_FORCE_DISABLE_CACHES=None)  # of which Dynamo speaks
    assert done.returncode == 0 and done.stderr == "", done.stderr
