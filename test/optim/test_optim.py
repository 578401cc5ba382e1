"""Optimizers on the device: foreach and fused forms against the CPU's plain loops."""

import pytest
import torch

from helpers import assert_close, random_tensor

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.validated]

SHAPES = [(3, 5), (1,), (), (1030,), (2, 0), (40, 33)]


def parameters(dtype=torch.float32, count=1):
    return [random_tensor(*s).to(dtype) for _ in range(count) for s in SHAPES]


def train(make, start, device, steps=3, **kwargs):
    params = [torch.nn.Parameter(p.clone().to(device)) for p in start]
    optimizer = make(params, **kwargs)
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype).to(device)
        optimizer.step()
    return params, optimizer


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)),
    "sgd dampening": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.3, maximize=True)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam amsgrad": (torch.optim.Adam, dict(lr=0.01, amsgrad=True, weight_decay=0.1)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    "adagrad": (torch.optim.Adagrad, dict(lr=0.1)),
    "adagrad decay": (torch.optim.Adagrad, dict(lr=0.1, lr_decay=0.2, weight_decay=0.1, maximize=True)),
    "adamw maximize": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1, maximize=True, amsgrad=True)),
}


@pytest.mark.float64
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused_float64(device, name):
    """Tensors of odd lengths, also of many tables; ten steps, so that the corrections of Adam's averages matter."""
    make, kwargs = OPTIMIZERS[name]
    start = parameters(torch.float64, count=9)
    expected, _ = train(make, start, "cpu", steps=10, foreach=False, **kwargs)
    kwargs = {**kwargs, "lr": torch.tensor(kwargs["lr"], dtype=torch.float64, device=device)}
    for lr in (kwargs["lr"], kwargs["lr"].item()):
        actual, _ = train(make, start, device, steps=10, fused=True, **{**kwargs, "lr": lr})
        for a, e in zip(actual, expected):
            assert a.dtype == torch.float64
            assert_close(a.data, e.data, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("form", ["default", "foreach", "fused", "loop"])
def test_optimizer(device, name, form):
    make, kwargs = OPTIMIZERS[name]
    start = parameters()
    expected, _ = train(make, start, "cpu", foreach=False, **kwargs)
    choice = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}, "loop": {"foreach": False}}[form]
    actual, _ = train(make, start, device, **choice, **kwargs)
    for a, e in zip(actual, expected):
        assert_close(a.data, e.data, rtol=1e-5, atol=1e-6)


def test_many_tensors(device):
    start = parameters(count=25)  # more than one table
    expected, _ = train(torch.optim.AdamW, start, "cpu", steps=2)
    actual, _ = train(torch.optim.AdamW, start, device, steps=2, fused=True)
    for a, e in zip(actual, expected):
        assert_close(a.data, e.data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad])
def test_tensor_learning_rate(device, make):
    start = parameters()
    expected, _ = train(make, start, "cpu", lr=0.02, foreach=False)
    for lr in [torch.tensor(0.02), torch.tensor(0.02, device=device)]:
        actual, _ = train(make, start, device, lr=lr, fused=True)
        for a, e in zip(actual, expected):
            assert_close(a.data, e.data, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_fused_half(device, dtype, make):
    start = parameters(dtype)
    expected, _ = train(make, [p.float() for p in start], "cpu", steps=1, lr=0.05)
    actual, _ = train(make, start, device, steps=1, lr=0.05, fused=True)
    for a, e in zip(actual, expected):
        assert_close(a.data, e.data.to(dtype), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.Adagrad])
def test_fused_with_grad_scale(device, make):
    start = parameters()[:2]
    params = [torch.nn.Parameter(p.clone().to(device)) for p in start]
    plain = [torch.nn.Parameter(p.clone()) for p in start]
    optimizer, reference = make(params, fused=True), make(plain)
    for p, q in zip(params, plain):
        q.grad = torch.randn_like(q)
        p.grad = (q.grad * 64).to(device)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(64.0, device=device), torch.tensor(0.0, device=device)
    optimizer.step()
    reference.step()
    for p, q in zip(params, plain):
        assert_close(p.data, q.data)
        assert_close(p.grad, q.grad)
    optimizer.found_inf = torch.tensor(1.0, device=device)
    before = [p.detach().clone() for p in params]
    optimizer.step()
    for p, b in zip(params, before):
        assert_close(p.data, b)


def test_transposed_parameter(device):
    w = random_tensor(6, 9)
    expected, _ = train(torch.optim.AdamW, [w], "cpu")
    params = [torch.nn.Parameter(w.to(device).t().contiguous().t())]
    optimizer = torch.optim.AdamW(params, fused=True)
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        params[0].grad = torch.randn(6, 9, generator=generator).to(device)
        optimizer.step()
    assert_close(params[0].data, expected[0].data, rtol=1e-5, atol=1e-6)


def test_foreach(device):
    x, y, z = parameters(), parameters(), [p.abs() + 1 for p in parameters()]
    d = [[t.to(device) for t in group] for group in (x, y, z)]
    scalars = [0.5 * i + 0.5 for i in range(len(x))]
    weight = torch.tensor(0.3)
    for f in [
        lambda a, b, c: torch._foreach_add(a, 2), lambda a, b, c: torch._foreach_add(a, b, alpha=3),
        lambda a, b, c: torch._foreach_add(a, scalars),
        lambda a, b, c: torch._foreach_mul(a, scalars), lambda a, b, c: torch._foreach_mul(a, b),
        lambda a, b, c: torch._foreach_mul(a, weight.to(a[0].device)),
        lambda a, b, c: torch._foreach_div(a, c), lambda a, b, c: torch._foreach_sub(a, b),
        lambda a, b, c: torch._foreach_sqrt(c),
        lambda a, b, c: torch._foreach_addcmul(a, b, c, 0.5), lambda a, b, c: torch._foreach_addcdiv(a, b, c, scalars),
        lambda a, b, c: torch._foreach_lerp(a, b, 0.2),
        lambda a, b, c: torch._foreach_lerp(a, b, c), lambda a, b, c: torch._foreach_neg(a),
        lambda a, b, c: torch._foreach_reciprocal(c),
        lambda a, b, c: torch._foreach_maximum(a, b), lambda a, b, c: torch._foreach_pow(c, 2),
        lambda a, b, c: torch._foreach_norm([t for t in a if t.numel()]),
    ]:  # fmt: skip
        assert_close(f(*d), f(x, y, z))
    for f in [
        lambda a, b, c: torch._foreach_add_(a, b, alpha=2), lambda a, b, c: torch._foreach_mul_(a, 0.5),
        lambda a, b, c: torch._foreach_addcdiv_(a, b, c, value=0.1),
        lambda a, b, c: torch._foreach_lerp_(a, b, 0.7), lambda a, b, c: torch._foreach_copy_(b, c),
        lambda a, b, c: torch._foreach_zero_(c),
    ]:  # fmt: skip
        f(*d)
        f(x, y, z)
        assert_close(d, [x, y, z])


IN_PLACE = {
    "add_scalar": lambda a, b, c: torch._foreach_add_(a, 0.75),
    "add": lambda a, b, c: torch._foreach_add_(a, b, alpha=-0.5),
    "sub": lambda a, b, c: torch._foreach_sub_(a, b, alpha=2),
    "mul_scalar": lambda a, b, c: torch._foreach_mul_(a, 3),
    "mul": lambda a, b, c: torch._foreach_mul_(a, b),
    "mul_scalars": lambda a, b, c: torch._foreach_mul_(a, [0.5 + i for i in range(len(a))]),
    "div_scalar": lambda a, b, c: torch._foreach_div_(a, 3),
    "div": lambda a, b, c: torch._foreach_div_(a, c),
    "div_scalars": lambda a, b, c: torch._foreach_div_(a, [0.5 + i for i in range(len(a))]),
    "addcmul": lambda a, b, c: torch._foreach_addcmul_(a, b, c, 0.1),
    "addcmul_scalars": lambda a, b, c: torch._foreach_addcmul_(a, b, c, [0.5 + i for i in range(len(a))]),
    "addcdiv": lambda a, b, c: torch._foreach_addcdiv_(a, b, c, -0.1),
    "addcdiv_scalars": lambda a, b, c: torch._foreach_addcdiv_(a, b, c, [0.5 + i for i in range(len(a))]),
    "lerp": lambda a, b, c: torch._foreach_lerp_(a, b, 0.7),
    "lerp_small": lambda a, b, c: torch._foreach_lerp_(a, b, 0.1),
    "sqrt": lambda a, b, c: torch._foreach_sqrt_(c),
    "zero": lambda a, b, c: torch._foreach_zero_(a),
    "neg": lambda a, b, c: torch._foreach_neg_(a),
    "abs": lambda a, b, c: torch._foreach_abs_(a),
    "sub_scalar": lambda a, b, c: torch._foreach_sub_(a, 0.75),
    "maximum": lambda a, b, c: torch._foreach_maximum_(a, b),
    "minimum": lambda a, b, c: torch._foreach_minimum_(a, b),
    "maximum_scalar": lambda a, b, c: torch._foreach_maximum_(a, 0.25),
    "minimum_scalar": lambda a, b, c: torch._foreach_minimum_(a, -0.25),
    "clamp_min": lambda a, b, c: torch._foreach_clamp_min_(a, b),
    "clamp_max": lambda a, b, c: torch._foreach_clamp_max_(a, b),
    "clamp_min_scalar": lambda a, b, c: torch._foreach_clamp_min_(a, 0.25),
    "clamp_max_scalar": lambda a, b, c: torch._foreach_clamp_max_(a, -0.25),
    "same": lambda a, b, c: torch._foreach_addcmul_(a, a, a, 2),
}


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_foreach_in_place(device, name, dtype):
    """More tensors than one dispatch takes, of awkward lengths and layouts; float64 goes through the loop."""
    sizes = [(), (0,), (1,), (3, 5), (1024,), (1025,), (2, 3, 4), (2500,)] * 8
    lists = [[random_tensor(*s, dtype=dtype) for s in sizes] for _ in range(2)]
    lists.append([random_tensor(*s, dtype=dtype).abs() + 1 for s in sizes])
    lists[0][3], lists[1][3], lists[2][3] = (g[3].t().contiguous().t() for g in lists)  # alike: still one walk
    mine = [[t.to(device) for t in group] for group in lists]
    version = mine[0][4]._version
    wide = [[t.float() if dtype in (torch.bfloat16, torch.float16) else t for t in group] for group in lists]
    IN_PLACE[name](*mine)
    IN_PLACE[name](*wide)
    assert_close(mine, [[t.to(dtype) for t in group] for group in wide])
    assert name == "sqrt" or mine[0][4]._version > version


FRESH = {
    "add_scalar": lambda a, b, c: torch._foreach_add(a, 0.75),
    "add": lambda a, b, c: torch._foreach_add(a, b, alpha=-0.5),
    "sub": lambda a, b, c: torch._foreach_sub(a, b, alpha=2),
    "mul_scalar": lambda a, b, c: torch._foreach_mul(a, 3),
    "mul": lambda a, b, c: torch._foreach_mul(a, b),
    "div_scalar": lambda a, b, c: torch._foreach_div(a, 3),
    "div": lambda a, b, c: torch._foreach_div(a, c),
    "addcmul": lambda a, b, c: torch._foreach_addcmul(a, b, c, 0.1),
    "addcdiv": lambda a, b, c: torch._foreach_addcdiv(a, b, c, -0.1),
    "lerp": lambda a, b, c: torch._foreach_lerp(a, b, 0.7),
    "sqrt": lambda a, b, c: torch._foreach_sqrt(c),
    "neg": lambda a, b, c: torch._foreach_neg(a),
    "abs": lambda a, b, c: torch._foreach_abs(a),
    "maximum": lambda a, b, c: torch._foreach_maximum(a, b),
    "minimum": lambda a, b, c: torch._foreach_minimum(a, b),
    "maximum_scalar": lambda a, b, c: torch._foreach_maximum(a, 0.25),
    "minimum_scalar": lambda a, b, c: torch._foreach_minimum(a, -0.25),
    "clamp_min": lambda a, b, c: torch._foreach_clamp_min(a, b),
    "clamp_max": lambda a, b, c: torch._foreach_clamp_max(a, b),
    "clamp_min_scalar": lambda a, b, c: torch._foreach_clamp_min(a, 0.25),
    "clamp_max_scalar": lambda a, b, c: torch._foreach_clamp_max(a, -0.25),
}


@pytest.mark.sampled(30)
@pytest.mark.parametrize("name", FRESH)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32])
def test_foreach_of_new_tensors(device, name, dtype):
    """Floats have the kernel, integers go through the loop. A NaN wins in a maximum, and operands stay."""
    sizes = [(), (0,), (3, 5), (1025,), (2, 3, 4)] * 3
    lists = [[random_tensor(*s, dtype=dtype) for s in sizes] for _ in range(2)]
    lists.append([random_tensor(*s, dtype=dtype).abs() + 1 for s in sizes])
    if dtype == torch.int32 and name in ("add", "addcdiv", "addcmul", "lerp"):
        pytest.skip("PyTorch takes no integers with such a number")
    if dtype.is_floating_point:
        lists[0][3][::7], lists[1][3][::5] = float("nan"), float("nan")
    mine = [[t.to(device) for t in group] for group in lists]
    wide = [[t.float() if dtype in (torch.bfloat16, torch.float16) else t for t in group] for group in lists]
    actual, expected = FRESH[name](*mine), FRESH[name](*wide)
    assert_close(list(actual), [t.to(a.dtype) for t, a in zip(expected, actual, strict=True)])
    assert all(torch.equal(m.cpu().nan_to_num(), e.nan_to_num()) for m, e in zip(sum(mine, []), sum(lists, [])))


def test_foreach_of_tensors_that_share_memory(device):
    """Where the loop's order shows, the result is the loop's."""
    def run(where):
        x = torch.arange(1.0, 41.0, device=where)
        torch._foreach_add_([x, x], 1)
        torch._foreach_add_([x[:20], x[20:]], [x[20:], x[:20]])
        torch._foreach_mul_([x[:10], x[5:15], x[20:]], 2)
        torch._foreach_add_([x[:10], x[10:20]], [x[10:20], x[20:30]])
        return x, torch._foreach_sqrt([x[:10], x[5:15]]), torch._foreach_add([x[:4], x[:4]], [x[4:8], x[:4]], alpha=2)

    assert_close(run(device), run("cpu"))


def test_foreach_mixtures(device):
    """Mixed dtypes, integers, lists of different lengths: as PyTorch does it."""
    def run(where):
        a = [torch.ones(3, device=where), torch.ones(4, device=where, dtype=torch.float16)]
        torch._foreach_add_(a, 1.5)
        i = [torch.arange(3, device=where), torch.arange(4, device=where)]
        torch._foreach_mul_(i, 3)
        b = [torch.ones(2, 3, device=where), torch.ones(4, device=where)]
        torch._foreach_add_(b, [torch.arange(3.0, device=where), torch.ones((), device=where)])
        c = [torch.arange(6.0, device=where).reshape(2, 3), torch.ones(4, device=where)]
        torch._foreach_add_(
            c, [torch.arange(6.0, device=where).reshape(3, 2).t(), torch.arange(8.0, device=where)[::2]]
        )
        return a, i, b, c

    assert_close(run(device), run("cpu"))
    with pytest.raises(RuntimeError, match="same number"):
        torch._foreach_add_([torch.ones(1, device=device)] * 2, [torch.ones(1, device=device)])


def test_clip_grad_norm(device):
    start = parameters()
    plain = [torch.nn.Parameter(p.clone()) for p in start]
    params = [torch.nn.Parameter(p.clone().to(device)) for p in start]
    for p, q in zip(params, plain):
        q.grad = torch.randn_like(q)
        p.grad = q.grad.to(device)
    norm, expected = torch.nn.utils.clip_grad_norm_(params, 1.0), torch.nn.utils.clip_grad_norm_(plain, 1.0)
    assert_close(norm, expected)
    for p, q in zip(params, plain):
        assert_close(p.grad, q.grad)


def test_errors(device):
    def fused_sgd(params, grads):
        options = dict(weight_decay=0, momentum=0, lr=0.1, dampening=0, nesterov=False, maximize=False)
        torch._fused_sgd_(params, grads, [], is_first_step=True, **options)

    x = [torch.ones(3, device=device)]
    with pytest.raises(RuntimeError, match="_fused_sgd_"):
        fused_sgd(x, [])
    if torch.aule.get_device_properties().float64:
        fused_sgd([x[0].double()], [x[0].double()])
    else:
        with pytest.raises((RuntimeError, NotImplementedError), match="float64"):
            fused_sgd([x[0].double()], [x[0].double()])
