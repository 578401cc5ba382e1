"""Training: against the CPU, mixed precision, the scaler, and memory that stays flat."""

import copy
import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import assert_close


class Block(nn.Module):
    """A pre-norm transformer block, small."""

    def __init__(self, width=32, heads=4, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + F.dropout(self.mlp(self.n2(x)), self.dropout, self.training)


class Gpt(nn.Module):
    def __init__(self, vocabulary=29, width=32, length=16, dropout=0.0):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, dropout=dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def train(device, steps, optimizer=torch.optim.AdamW, autocast=None, dropout=0.0, **options):
    torch.manual_seed(1)
    model = Gpt(dropout=dropout).to(device)
    optimizer = optimizer(model.parameters(), lr=3e-3, **options)
    losses = []
    data = torch.randint(0, 29, (steps, 4, 17), generator=torch.Generator().manual_seed(2))
    for batch in data:
        batch = batch.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("aule", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def test_gpt_follows_the_cpu(device):
    a, e = train(device, 20), train("cpu", 20)
    assert ((a - e).abs() / e.abs()).max() < 1e-4


@pytest.mark.parametrize(
    "optimizer, options",
    [
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.SGD, {"fused": True, "momentum": 0.9}),
        (torch.optim.Adam, {"foreach": False, "amsgrad": True}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.AdamW, {"foreach": True, "weight_decay": 0.1}),
        (torch.optim.RMSprop, {}),
        (torch.optim.Adagrad, {}),
    ],
)
def test_optimizers_follow_the_cpu(device, optimizer, options):
    steps = 3

    def run(d):
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 3)).to(d)
        opt = optimizer(model.parameters(), lr=0.01, **options)
        for i in range(steps):
            opt.zero_grad()
            F.mse_loss(model(torch.linspace(-1, 1, 35).reshape(5, 7).to(d) + i), torch.ones(5, 3, device=d)).backward()
            opt.step()
        return [p.detach() for p in model.parameters()]

    assert_close(run(device), run("cpu"), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(device, dtype):
    with torch.autocast("aule", dtype=dtype):
        a = torch.randn(4, 4, device=device)
        assert (a @ a).dtype == dtype
        assert F.linear(a, a).dtype == dtype
        assert (a @ a).softmax(-1).dtype == torch.float32
        assert (a + a).dtype == torch.float32
        assert F.scaled_dot_product_attention(*[a.view(1, 1, 4, 4)] * 3).dtype == dtype
        with torch.autocast("aule", enabled=False):
            assert (a @ a).dtype == torch.float32
    assert torch.get_autocast_dtype("aule") == torch.float16
    with torch.aule.amp.autocast(dtype=dtype):
        assert (a @ a).dtype == dtype


def test_autocast_training_learns(device):
    full = train("cpu", 8)
    mixed = train(device, 8, autocast=torch.bfloat16)
    assert (mixed - full).abs().max() < 0.1


def test_grad_scaler(device):
    torch.manual_seed(0)
    model = nn.Linear(6, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("aule", init_scale=1024.0, growth_interval=2)
    x = torch.randn(5, 6, device=device)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("aule", dtype=torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        assert model.weight.grad.abs().max().item() < 100
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2048.0
    before = model.weight.detach().clone()
    optimizer.zero_grad()
    scaler.scale(model(x).sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1024.0
    assert torch.equal(before.cpu(), model.weight.detach().cpu()), "a step with infinite gradients must be skipped"
    assert torch.aule.amp.GradScaler().state_dict()["scale"] == 65536.0


def test_clip_grad_norm(device):
    grads = [torch.randn(11, 3), torch.randn(5)]
    norms, clipped = [], []
    for d in ("cpu", device):
        ps = [nn.Parameter(torch.zeros_like(g, device=d)) for g in grads]
        for p, g in zip(ps, grads):
            p.grad = g.to(d).clone()
        norms.append(nn.utils.clip_grad_norm_(ps, 0.5))
        clipped.append([p.grad for p in ps])
    assert_close(norms[1], norms[0], rtol=1e-4)
    assert_close(clipped[1], clipped[0], rtol=1e-4)


def test_dropout_is_reproducible(device):
    a = train(device, 4, dropout=0.3)
    b = train(device, 4, dropout=0.3)
    assert torch.equal(a, b)


def test_memory_stays_flat(device):
    """1,000 steps reserve no more memory than the tenth did."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, y = torch.randn(64, 16, device=device), torch.randint(0, 4, (64,), device=device)
    gc.collect()
    for step in range(1000):
        optimizer.zero_grad()
        F.cross_entropy(model(x[: 8 + step % 50]), y[: 8 + step % 50]).backward()
        optimizer.step()
        if step == 9:
            allocated, reserved = torch.aule.memory_allocated(), torch.aule.memory_reserved()
    assert torch.aule.memory_reserved() <= reserved
    assert torch.aule.memory_allocated() <= allocated + 4096


def test_data_parallel_replicas_of_modules(device):
    """Modules that hold buffers move whole: batch norm's running statistics are updated on the device."""
    torch.manual_seed(0)
    cpu = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    dev = copy.deepcopy(cpu).to(device)
    x = torch.randn(5, 3, 9, 9)
    for m, d in ((cpu, "cpu"), (dev, device)):
        m(x.to(d)).square().sum().backward()
    for (name, a), e in zip(dev.named_parameters(), cpu.parameters()):
        assert_close(a.grad, e.grad, rtol=1e-3, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")
    assert_close(dev[1].running_mean, cpu[1].running_mean, rtol=1e-4, atol=1e-5)
    assert_close(dev[1].running_var, cpu[1].running_var, rtol=1e-4, atol=1e-5)
    dev.eval(), cpu.eval()
    assert_close(dev(x.to(device)), cpu(x), rtol=1e-3, atol=1e-4)
