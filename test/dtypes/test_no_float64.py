"""A device without float64, as Intel Arc and Apple: float64 is moved, converted, compared and printed by integer code.

The tests run in a process of their own, where TORCH_AULE_DISABLE=float64 stands for such a device.
"""

import copy

import numpy as np
import pytest
import torch
import torch.nn as nn

from helpers import does_without, run_interpreter, without

HERE = does_without("float64")
without_float64 = pytest.mark.skipif(not HERE, reason="runs in the process that the first test starts")
N = 20_000


@pytest.mark.validated
@pytest.mark.skipif(HERE, reason="starts the others")
def test_in_a_process_without_float64():
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", __file__]
    done = run_interpreter(*arguments, timeout=600, **without("float64"))
    assert done.returncode == 0, done.stdout + done.stderr


def random_bits():
    """Doubles of every kind: random bits, small exponents, ties of float32's rounding, and the corners."""
    rng = np.random.default_rng(torch.randint(2**31, ()).item())
    bits = rng.integers(0, 2**64, N, dtype=np.uint64)
    near = rng.integers(0, 2**64, N, dtype=np.uint64) & ~np.uint64(0x7FF << 52)
    near |= rng.integers(1023 - 160, 1023 + 140, N).astype(np.uint64) << np.uint64(52)
    ties = (near & ~np.uint64((1 << 29) - 1)) | np.uint64(1 << 28)
    small = rng.integers(0, 2**64, 2000, dtype=np.uint64) & np.uint64((1 << 63) | (1 << 52) - 1)
    corners = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1.0, -1.0,
         3.4028235677973366e38, 3.4028234663852886e38, 1.401298464324817e-45, 7.006492321624085e-46, 65504.0, 2.0**53]
    )  # fmt: skip
    return np.concatenate([x.view(np.float64) for x in (bits, near, ties, small)] + [corners])


def pairs():
    """Operands of every kind beside each other, equal ones and neighbours among them."""
    x = random_bits()
    rng = np.random.default_rng(x.view(np.uint64)[0])
    y = rng.permutation(x)
    close = x[:N] * (1 + rng.integers(-3, 4, N) * 2.0**-52)
    return np.concatenate([x, x[:100], x[:N]]), np.concatenate([y, x[:100], close])


def same_bits(actual, expected):
    """Equal as bits, but for the payload of NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    nan = np.isnan(expected) if expected.dtype.kind == "f" else np.zeros(expected.shape, bool)
    wrong = ~nan & (actual.view(f"u{actual.itemsize}") != expected.view(f"u{expected.itemsize}"))
    if expected.dtype.kind == "f":
        wrong |= nan & ~np.isnan(actual)
    at = np.flatnonzero(wrong)
    assert at.size == 0, f"{at.size} of {actual.size}: {actual.ravel()[at[:5]]!r} for {expected.ravel()[at[:5]]!r}"


@without_float64
def test_the_device_says_so(device):
    assert not torch.aule.get_device_properties().float64


@without_float64
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float32_and_back(device, dense):
    x = random_bits()
    t = torch.from_numpy(x).to(device)
    narrow = torch.from_numpy(x.astype(np.float32))
    if not dense:
        x, t, narrow = x[::3], t[::3], narrow[::3]
    same_bits(t.cpu().numpy(), x)
    same_bits(t.float().cpu().numpy(), narrow.numpy())
    same_bits(narrow.to(device).double().cpu().numpy(), narrow.numpy().astype(np.float64))
    floats = torch.randint(-(2**31), 2**31 - 1, (N,), dtype=torch.int32).view(torch.float32)
    same_bits(floats.to(device).double().cpu().numpy(), floats.double().numpy())
    subnormal = torch.randint(1, 2**23, (N,), dtype=torch.int32).view(torch.float32)
    same_bits(subnormal.to(device).double().cpu().numpy(), subnormal.double().numpy())


@without_float64
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves(device, dtype):
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    same_bits(every.to(device).double().cpu().numpy(), every.double().numpy())
    x = torch.from_numpy(random_bits())
    same_bits(x.to(device).to(dtype).cpu().float().numpy(), x.to(dtype).float().numpy())


@without_float64
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str)
def test_integers(device, dtype):
    if dtype is torch.bool:
        whole = torch.rand(N) < 0.5
    else:
        info = torch.iinfo(dtype)
        whole = torch.randint(info.min, info.max, (N,), dtype=dtype)
        whole[:2] = torch.tensor([info.min, info.max], dtype=dtype)
        if dtype is torch.int64:  # near 2^53 and ties above it
            whole[2:5000] = 2**53 + torch.randint(-300, 300, (4998,))
            whole[5000:9000] >>= torch.randint(0, 63, (4000,))
    same_bits(whole.to(device).double().cpu().numpy(), whole.double().numpy())
    if dtype is torch.bool:
        x = torch.from_numpy(random_bits())
    else:
        x = whole.double() * torch.rand(N, dtype=torch.float64)  # in range: the rest is undefined in C
    assert torch.equal(x.to(device).to(dtype).cpu(), x.to(dtype))


@without_float64
def test_comparisons_and_bits(device):
    x, y = (torch.from_numpy(t) for t in pairs())
    a, b = x.to(device), y.to(device)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        op = getattr(torch, name)
        assert torch.equal(op(a, b).cpu(), op(x, y)), name
        assert torch.equal(op(a, 1.0).cpu(), op(x, 1.0)), name
        assert torch.equal(op(a[:-1:2], b[1::2]).cpu(), op(x[:-1:2], y[1::2])), name
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"):
        assert torch.equal(getattr(torch, name)(a).cpu(), getattr(torch, name)(x)), name
    for name in ("logical_and", "logical_or", "logical_xor"):
        assert torch.equal(getattr(torch, name)(a, b).cpu(), getattr(torch, name)(x, y)), name
    for name in ("abs", "neg"):
        same_bits(getattr(torch, name)(a).cpu().numpy(), getattr(torch, name)(x).numpy())
    torch.testing.assert_close(torch.sign(a).cpu(), torch.sign(x), rtol=0, atol=0, equal_nan=True)
    quiet = [torch.where(t.isnan(), torch.nan, t) for t in (x, y)]  # the C library's fmax keeps a signalling NaN
    for name in ("maximum", "minimum", "fmax", "fmin", "copysign"):
        got, expected = (getattr(torch, name)(*t) for t in ([t.to(device) for t in quiet], quiet))
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=0, equal_nan=True, msg=name)
    same_bits(torch.where(a > b, a, b).cpu().numpy(), torch.where(x > y, x, y).numpy())
    torch.testing.assert_close(a.clamp(-2.0, 3.0).cpu(), x.clamp(-2.0, 3.0), rtol=0, atol=0, equal_nan=True)


@without_float64
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic_is_rounded_as_on_the_cpu(device, name):
    x, y = pairs()
    a, b = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    expected = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name](x, y)
    same_bits(getattr(torch, name)(a, b).cpu().numpy(), expected)


@without_float64
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reciprocal_and_mixed_operands(device):
    x = random_bits()
    t = torch.from_numpy(x).to(device)
    same_bits(t.reciprocal().cpu().numpy(), 1 / x)
    f = torch.randn(x.size)
    same_bits((t * f.to(device)).cpu().numpy(), (torch.from_numpy(x) * f).numpy())
    same_bits((t.view(-1, 2) * 3 + t[:2]).cpu().numpy(), (torch.from_numpy(x).view(-1, 2) * 3 + x[:2]).numpy())


@without_float64
def test_moves(device):
    x = torch.from_numpy(random_bits())[:6000].view(60, 100)
    a = x.to(device)
    same_bits(a.t().contiguous().cpu().numpy(), x.t().contiguous().numpy())
    same_bits(torch.cat([a, a[:3]], 0).cpu().numpy(), torch.cat([x, x[:3]], 0).numpy())
    index = torch.randint(60, (17,))
    same_bits(a[index.to(device)].cpu().numpy(), x[index].numpy())
    columns = torch.randint(100, (60, 5))
    same_bits(a.gather(1, columns.to(device)).cpu().numpy(), x.gather(1, columns).numpy())
    same_bits(a.flip(1).roll(3, 0).cpu().numpy(), x.flip(1).roll(3, 0).numpy())
    b = torch.empty(5, 7, dtype=torch.float64, device=device).fill_(0.1)
    assert b.cpu().unique().tolist() == [0.1] and not b.zero_().cpu().any()
    b[2:4] = 7.25
    assert b.cpu().sum() == 7.25 * 14
    assert torch.zeros(3, dtype=torch.float64, device=device).tolist() == [0.0] * 3
    assert torch.tensor([1.5, -2.5], dtype=torch.float64, device=device)[1].item() == -2.5
    mask = (a > 0).cpu()
    same_bits(a.masked_select(a > 0).cpu().numpy(), x.masked_select(mask).numpy())


@without_float64
def test_sequences(device):
    for arguments in ((10,), (0.1, 7.3, 0.3), (5, -5, -0.7), (-3, 1000)):
        expected = torch.arange(*arguments, dtype=torch.float64)
        torch.testing.assert_close(
            torch.arange(*arguments, dtype=torch.float64, device=device).cpu(), expected, rtol=4e-16, atol=1e-15
        )
    for arguments in ((0, 1, 11), (-2.5, 7.125, 100), (3, 3, 1), (0, 1, 0)):
        expected = torch.linspace(*arguments, dtype=torch.float64)
        got = torch.linspace(*arguments, dtype=torch.float64, device=device).cpu()
        torch.testing.assert_close(got, expected, rtol=4e-16, atol=1e-15)
        if expected.numel() > 1:
            assert got[-1] == expected[-1] and got[0] == expected[0]
    for steps in (7, 100, 1001):
        expected = torch.linspace(0, 50, steps, dtype=torch.int64)
        assert torch.equal(torch.linspace(0, 50, steps, dtype=torch.int64, device=device).cpu(), expected)


@without_float64
def test_printing(device):
    cases = [torch.randn(3, 4), torch.tensor([1e-30, 1e30, float("inf"), float("nan")]), torch.tensor(3.25)]
    cases += [torch.empty(0), torch.arange(5.0), torch.randn(40, 50), torch.tensor([1e-40])]
    for x in cases:
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            t = x.to(dtype)
            assert repr(t.to(device)) == repr(t).replace(")", ", device='aule:0')") or same_words(t.to(device), t)
    for t in (torch.arange(5), torch.tensor([True, False]), torch.randint(255, (3, 3), dtype=torch.uint8)):
        assert same_words(t.to(device), t)
    assert same_words(torch.complex(torch.randn(3), torch.randn(3)).to(device), None)
    assert f"{torch.tensor(2.5, dtype=torch.float64, device=device):.2f}" == "2.50"


def same_words(on_device, on_cpu):
    """The same numbers in print, with the device after them."""
    text = repr(on_device)
    if on_cpu is None:
        return "device='aule:0'" in text
    strip = lambda s: "".join(s.replace("device='aule:0'", "").replace(",", "").replace(")", "").split())  # noqa: E731
    return "device='aule:0'" in text and strip(text) == strip(repr(on_cpu))


@without_float64
def test_a_step_with_a_gradient_scaler(device):
    host = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    model = copy.deepcopy(host).to(device)
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    for net, where in ((host, "cpu"), (model, "aule")):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(where, init_scale=2.0**10, enabled=True)
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x.to(where)), y.to(where))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    for a, b in zip(model.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=2e-5, atol=1e-6)


@without_float64
@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}], ids=str)
def test_training_with_adamw(device, options, tmp_path):
    host = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    model = copy.deepcopy(host).to(device)
    x, y = torch.randn(12, 6), torch.randint(3, (12,))
    optimizers = [torch.optim.AdamW(net.parameters(), lr=1e-2, **options) for net in (host, model)]
    for net, optimizer, where in ((host, optimizers[0], "cpu"), (model, optimizers[1], "aule")):
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x.to(where)), y.to(where)).backward()
            optimizer.step()
    for a, b in zip(model.parameters(), host.parameters(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4)
    state = {"model": model.state_dict(), "optimizer": optimizers[1].state_dict()}
    state["double"] = torch.tensor([0.1, 1e-310], dtype=torch.float64, device=device)
    torch.save(state, tmp_path / "state.pt")
    for where in ("aule", "cpu"):
        again = torch.load(tmp_path / "state.pt", map_location=where)
        assert again["double"].device.type == where and again["double"].tolist() == [0.1, 1e-310]
        fresh = copy.deepcopy(host).to(where)
        fresh.load_state_dict(again["model"])
        for a, b in zip(fresh.parameters(), model.parameters(), strict=True):
            assert torch.equal(a.cpu(), b.cpu())


@without_float64
def test_a_model_in_float64_moves(device):
    net = nn.Linear(3, 2).double()
    values = [p.detach().clone() for p in net.parameters()]
    net.to(device)
    same_bits(net.weight.detach().cpu().numpy(), values[0].numpy())
    net.float()
    assert net.weight.dtype == torch.float32 and torch.equal(net.weight.detach().cpu(), values[0].float())


@without_float64
def test_what_has_no_integer_code_is_refused_by_name(device):
    x = torch.ones(4, dtype=torch.float64, device=device)
    for call in (torch.exp, torch.sin, torch.sqrt):
        with pytest.raises(NotImplementedError, match="float64"):
            call(x)
    for call in (torch.sum, lambda t: t.view(2, 2) @ t.view(2, 2), lambda t: torch.softmax(t, 0)):
        with pytest.raises(RuntimeError):  # in strict mode; the default mode computes on the CPU
            call(x)


@without_float64
def test_complex128(device):
    z, w = torch.randn(2, 6, 17, dtype=torch.complex128)
    mask = torch.rand(6, 17) < 0.5
    a, b, m = z.to(device), w.to(device), mask.to(device)
    assert torch.equal(a.mT.contiguous().cpu(), z.mT)
    assert torch.equal(a.conj().clone().cpu(), z.conj())
    assert torch.equal(torch.complex(a.real, b.imag).cpu(), torch.complex(z.real, w.imag))
    assert torch.equal(a.to(torch.complex64).cpu(), z.to(torch.complex64))
    assert torch.equal(torch.where(m, a, b[0]).cpu(), torch.where(mask, z, w[0]))
    assert torch.equal(torch.where(m, a, 1j).cpu(), torch.where(mask, z, 1j))
    assert torch.equal(a.masked_fill(m, 2 - 1j).cpu(), z.masked_fill(mask, 2 - 1j))
    for refused in (lambda: a * b, lambda: a.sum(), lambda: a.cumsum(0), lambda: a.exp(), lambda: a == b):
        with pytest.raises(NotImplementedError, match="float64"):
            refused()
