"""FlexAttention on aule: compiled kernels forward and backward against float64, tables of blocks, the dense form."""

import os
import warnings

import pytest
import torch

from flex_reference import RandomModifiers, reference
from helpers import assert_close as assert_close_of_one_dtype
from helpers import needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
pytest.importorskip("torch.nn.attention.flex_attention")
needs_shader_compiler()

from torch._inductor.utils import fresh_inductor_cache, run_and_get_code  # noqa: E402
from torch.nn.attention import flex_attention as flex_module  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

# Traced code of torch 2.11 asks whether this warning was shown, and is compiled anew once it was.
if hasattr(flex_module, "_WARNINGS_SHOWN"):
    flex_module._WARNINGS_SHOWN.add("deprecated_return_lse")

TOLERANCE = {torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def assert_close(actual, expected, rtol, atol):
    assert_close_of_one_dtype(actual.double(), expected.double(), rtol=rtol, atol=atol)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with fresh_inductor_cache(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # return_lse
        warnings.simplefilter("ignore", UserWarning)  # the dense form is slow
        yield
    torch._dynamo.reset()


class Case:
    """Operands in float64 on the CPU and in `dtype` on the device; modifiers take captured tensors by name."""

    def __init__(self, device, lengths=(70, 70), batch=2, heads=2, kv_heads=None, dim=16, v_dim=None, kv_batch=None,
                 dtype=torch.float32, captured=None, trained=()):  # fmt: skip
        self.device, self.dtype = device, dtype
        kv_heads, kv_batch = kv_heads or heads, kv_batch or batch
        shapes = [(batch, heads, lengths[0], dim), (kv_batch, kv_heads, lengths[1], dim),
                  (kv_batch, kv_heads, lengths[1], v_dim or dim)]  # fmt: skip
        self.own = [torch.randn(s, dtype=torch.float64).to(dtype).to(device).requires_grad_() for s in shapes]
        self.exact = [x.detach().cpu().double().requires_grad_() for x in self.own]
        self.captured, self.exact_captured, self.trained = {}, {}, trained
        for name, x in (captured or {}).items():
            given = x.to(torch.float32) if x.is_floating_point() else x
            self.captured[name] = given.to(device).requires_grad_(name in trained)
            self.exact_captured[name] = (given.double() if x.is_floating_point() else x).requires_grad_(name in trained)
        self.batch, self.heads, self.lengths, self.gqa = batch, heads, lengths, kv_heads != heads

    def block_mask(self, mask_mod, block=32):
        if mask_mod is None:
            return None
        return create_block_mask(mask_mod, self.batch, self.heads, *self.lengths, device=self.device, BLOCK_SIZE=block)

    def check(self, score=None, mask=None, *, lane_rows=True, settings=None, **options):
        """Compares output, logsumexp and all gradients; that our kernels ran is part of it.

        `lane_rows` is the form of software devices, without it they run that of GPUs. Returns the generated code.
        """
        from torch_aule.compile import config

        with config.patch(flex_lane_rows=lane_rows, **(settings or {})):
            return self._check(score, mask, **options)

    def _check(self, score, mask, *, block=32, backward=True, lse=False, call=None, kernels=True):
        modifiers = [f(self.captured) if f is not None else None for f in (score, mask)]
        exact = [f(self.exact_captured) if f is not None else None for f in (score, mask)]
        block_mask = self.block_mask(modifiers[1], block)
        call = call or torch.compile(flex_attention, fullgraph=True)

        def own():
            o, stats = call(*self.own, score_mod=modifiers[0], block_mask=block_mask, enable_gqa=self.gqa,
                            return_lse=True)  # fmt: skip
            if not backward:
                return o, stats, ()
            finite = torch.where(stats > -1e30, stats, 0)
            weights = [torch.linspace(-1, 1, o.numel(), device=self.device).reshape(o.shape),
                       torch.linspace(1, 2, stats.numel(), device=self.device).reshape(stats.shape)]  # fmt: skip
            loss = (o.float() * weights[0]).sum() + ((finite * weights[1]).sum() if lse else 0)
            return o, stats, torch.autograd.grad(loss, [*self.own, *(self.captured[n] for n in self.trained)])

        if kernels:
            (o, stats, grads), code = run_and_get_code(own)
            for kind in ("forward", "dq", "dkdv") if backward else ("forward",):
                assert any(f"aule_flex_{kind}" in text for text in code), f"no kernel aule_flex_{kind}"
        else:
            (o, stats, grads), code = own(), []
        expected, expected_stats, _ = reference(*self.exact, *exact)
        tolerance = TOLERANCE[self.dtype]
        assert o.dtype == self.dtype and o.shape == expected.shape
        assert_close(o, expected, rtol=tolerance, atol=tolerance)
        assert_close(stats, expected_stats, rtol=tolerance, atol=tolerance)
        if backward:
            weights = [torch.linspace(-1, 1, o.numel()).double().reshape(o.shape),
                       torch.linspace(1, 2, stats.numel()).double().reshape(stats.shape)]  # fmt: skip
            finite = torch.where(expected_stats > -1e30, expected_stats, 0)
            loss = (expected * weights[0]).sum() + ((finite * weights[1]).sum() if lse else 0)
            wanted = torch.autograd.grad(loss, [*self.exact, *(self.exact_captured[n] for n in self.trained)])
            for x, y in zip(grads, wanted, strict=True):
                scale = max(1.0, y.abs().max().item())
                assert_close(x / scale, y / scale, rtol=tolerance, atol=tolerance)
        return "\n".join(code)


def causal(t):
    return lambda b, h, m, n: m >= n


def window(t):
    return lambda b, h, m, n: (m >= n) & (m - n < 20)


@pytest.mark.parametrize("lane_rows", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_without_modifiers(device, dtype, lane_rows):
    Case(device, dtype=dtype).check(lse=True, lane_rows=lane_rows)


@pytest.mark.parametrize("lane_rows", [True, False])
@pytest.mark.parametrize(("mask", "block"), [(causal, 32), (window, (48, 20))], ids=["causal", "window"])
def test_masks(device, mask, block, lane_rows):
    Case(device, lengths=(100, 100)).check(mask=mask, block=block, lane_rows=lane_rows)


def test_blocks_that_are_full_and_blocks_that_are_skipped(device):
    """The tables have all three kinds; keys and values of blocks that no query sees are never read."""
    case = Case(device, lengths=(128, 128), batch=1)
    block_mask = case.block_mask(window(None), 16)
    kinds = block_mask.kv_num_blocks.sum() + block_mask.full_kv_num_blocks.sum()
    assert block_mask.full_kv_num_blocks is not None and kinds < 2 * 8 * 8
    far = lambda t: lambda b, h, m, n: n < 64  # noqa: E731
    with torch.no_grad():
        for x in (*case.own[1:], *case.exact[1:]):
            x[:, :, 64:] = float("nan")
    modifiers = far(None)
    o = torch.compile(flex_attention)(*case.own, block_mask=case.block_mask(modifiers, 16))
    q, k, v = case.exact
    assert_close(o, reference(q, k[:, :, :64], v[:, :, :64])[0], rtol=5e-5, atol=5e-5)


def test_documents(device):
    """A captured tensor of int64, and lengths of int64 that positions are compared with."""
    captured = {"document": torch.randint(0, 4, (2, 90)).sort(-1)[0], "seen": torch.tensor([90, 41])}

    def mask(t):
        return lambda b, h, m, n: (t["document"][b, m] == t["document"][b, n]) & (n < t["seen"][b])

    Case(device, lengths=(90, 90), captured=captured).check(mask=mask)


def test_scores(device):
    """Slopes of heads, a soft cap, and a mask inside of score_mod."""

    def score(t):
        def mod(score, b, h, m, n):
            score = 20 * torch.tanh(score / 20) - torch.exp2(-(h + 1.0)) * (m - n).abs()
            return torch.where(n <= m + 3, score, -float("inf"))

        return mod

    Case(device).check(score=score)


@pytest.mark.current_lavapipe
@pytest.mark.vector_widths
@pytest.mark.parametrize("lane_rows", [True, False])
def test_gradients_of_captured_tensors(device, lane_rows):
    """A table of relative biases and a bias for each head, under grouped heads."""
    captured = {"table": torch.randn(140, dtype=torch.float64), "head": torch.randn(4, dtype=torch.float64)}

    def score(t):
        return lambda score, b, h, m, n: score * t["head"][h] + t["table"][m - n + 70]

    Case(device, heads=4, kv_heads=2, captured=captured, trained=("table", "head")).check(
        score, causal, lse=True, lane_rows=lane_rows
    )


def test_grouped_heads_and_sizes_that_differ(device):
    Case(device, heads=6, kv_heads=2, dim=24, v_dim=36, lengths=(33, 75)).check(mask=lambda t: lambda b, h, m, n:
                                                                                m + 40 >= n)  # fmt: skip


def test_wide_heads(device):
    """Columns of the result in two workgroups; the gradients of captured tensors are added once."""
    captured = {"bias": torch.randn(2, dtype=torch.float64)}

    def score(t):
        return lambda score, b, h, m, n: score + t["bias"][h] * n

    Case(device, dim=136, lengths=(20, 40), batch=1, captured=captured, trained=("bias",)).check(score)


@pytest.mark.parametrize("lane_rows", [True, False])
def test_odd_heads(device, lane_rows):
    Case(device, dim=7, v_dim=5, lengths=(17, 19)).check(mask=causal, lane_rows=lane_rows)


def test_batch_that_shares_keys(device):
    Case(device, batch=3, kv_batch=1, lengths=(40, 50)).check(mask=lambda t: lambda b, h, m, n: n <= m + b)


def test_rows_that_see_nothing(device):
    """Their output is 0, logsumexp -inf and gradients 0, in blocks that are read and in blocks that are not."""
    case = Case(device, lengths=(80, 80))
    case.check(mask=lambda t: lambda b, h, m, n: (m > 40) & (n <= m) & (m % 7 != 3), lse=True)


def test_operands_that_are_views(device):
    """Query, key and value of one projection, with heads inside of rows."""
    x = torch.randn(2, 50, 3, 4, 16, device=device)
    q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
    assert not q.is_contiguous()
    o = torch.compile(flex_attention)(q, k, v)
    assert o.stride() == torch.empty_like(q).stride()
    assert_close(o, reference(*(y.cpu().double() for y in (q, k, v)))[0], rtol=5e-5, atol=5e-5)


def test_captured_views_and_values_made_in_the_graph(device):
    q, k, v = Case(device, lengths=(40, 40)).own
    table = torch.randn(3, 100, device=device)

    def f(q, k, v, table):
        bias, row = table.tanh() * 2, table[1, 30:70]
        return flex_attention(q, k, v, score_mod=lambda s, b, h, m, n: s + bias[h, m + n] + row[n])

    exact = [x.detach().cpu().double() for x in (q, k, v, table)]
    bias, row = exact[3].tanh() * 2, exact[3][1, 30:70]
    expected = reference(*exact[:3], lambda s, b, h, m, n: s + bias[h, m + n] + row[n])[0]
    assert_close(torch.compile(f)(q, k, v, table), expected, rtol=5e-5, atol=5e-5)


def test_lengths_that_change(device):
    """One graph and one set of kernels for all lengths."""
    call = torch.compile(flex_attention, fullgraph=True, dynamic=True)
    for number, (m, n) in enumerate([(70, 90), (33, 129), (200, 64)]):
        with torch._dynamo.config.patch(error_on_recompile=number > 0):
            case = Case(device, lengths=(m, n), batch=number + 3)
            case.check(mask=window, block=16, call=call, kernels=False)


def dynamo_takes_floats_that_change(f, *tensors):
    """Whether tracing alone does, without gradients."""
    call = torch.compile(f, fullgraph=True, backend="eager")
    try:
        with torch.no_grad():
            for weight in (0.5, 0.75, 1.5):
                call(*tensors, weight, 1)
    except torch._dynamo.exc.TorchRuntimeError:
        return False
    finally:
        torch._dynamo.reset()
    return True


def test_numbers_that_change(device):
    """A Python float and int that modifiers capture are arguments of the kernel once they have changed.

    Without gradients: with them, Dynamo itself refuses a float that changes. Since torch 2.15 it does so without them.
    """

    def f(q, k, v, weight, window):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, m, n: s * weight - (m - n).abs() * window)

    case = Case(device, lengths=(40, 40))
    weights = (0.5, 0.75, 1.5, 2.5) if dynamo_takes_floats_that_change(f, *case.own) else (0.5,) * 4
    call = torch.compile(f, fullgraph=True)
    for number, (weight, window) in enumerate(zip(weights, (1, 2, 3, 4), strict=True)):
        with torch._dynamo.config.patch(error_on_recompile=number > 1), torch.no_grad():
            o = call(*case.own, weight, window)
        mod = lambda s, b, h, m, n: s * weight - (m - n).abs() * window  # noqa: B023, E731
        assert_close(o, reference(*case.exact, mod)[0], rtol=5e-5, atol=5e-5)


def test_only_logsumexp_has_a_gradient(device):
    case = Case(device)
    stats = torch.compile(lambda *t: flex_attention(*t, return_lse=True)[1])(*case.own)
    grads = torch.autograd.grad(stats.square().sum(), case.own[:2])
    wanted = torch.autograd.grad(reference(*case.exact)[1].square().sum(), case.exact[:2])
    for x, y in zip(grads, wanted, strict=True):
        assert_close(x, y, rtol=5e-5, atol=5e-5)


def test_tiles_by_the_config(device):
    """Shapes of tiles for measurements; those of the eager family for large GPUs have registers for 8 x 8 scores."""
    from torch_aule.compile import config

    wide = {"flex_tiles_forward": "128,8,8,8,8,1,2,2,8,64", "flex_tiles_dq": "128,16,8,4,16,1,2,4,16,64",
            "flex_tiles_dkdv": "256,16,4,4,16,1,2,4,16,64"}  # fmt: skip
    with config.patch(wide):
        Case(device, lengths=(100, 100)).check(mask=causal, lane_rows=False)


def test_tiles_fit_into_shared_memory():
    from torch_aule.compile.flex.shape import Tiles, fitting

    tiles = Tiles()
    assert 16 * 1024 < tiles.shared_bytes(128, shuffles=True) < 17 * 1024
    assert fitting(tiles, 128, 32 * 1024, True) == tiles
    small = fitting(tiles, 128, 16 * 1024, False)
    assert small.most == 64 and small.splits(128) == 2 and small.shared_bytes(128, shuffles=False) <= 16 * 1024


def test_maxima(device):
    if not hasattr(flex_module, "AuxRequest"):
        pytest.skip("this PyTorch returns no maxima")
    case = Case(device)
    aux = flex_module.AuxRequest(lse=True, max_scores=True)
    with torch.no_grad():
        o, stats = torch.compile(flex_attention)(*case.own, block_mask=case.block_mask(causal(None)), return_aux=aux)
    expected = reference(*case.exact, None, causal(None))
    for x, y in zip((o, stats.lse, stats.max_scores), expected, strict=True):
        assert_close(x, y, rtol=5e-5, atol=5e-5)


def test_autocast(device):
    case = Case(device)
    with torch.autocast("aule", dtype=torch.bfloat16):
        o = torch.compile(flex_attention)(*case.own)
    assert o.dtype == torch.bfloat16
    assert_close(o, reference(*case.exact)[0], rtol=5e-2, atol=5e-2)


def test_eager_is_the_dense_form(device):
    captured = {"table": torch.randn(140, dtype=torch.float64)}

    def score(t):
        return lambda score, b, h, m, n: score + t["table"][m - n + 70]

    case = Case(device, heads=4, kv_heads=2, captured=captured, trained=("table",))
    case.check(score, window, call=flex_attention, kernels=False)


@pytest.mark.parametrize("why", ["float64", "operator"])
def test_what_has_no_kernel_takes_the_dense_form(device, why):
    def score(t):
        return lambda score, b, h, m, n: torch.floor_divide(score, 0.25) + score if why == "operator" else score * 2

    case = Case(device, lengths=(20, 30))
    if why == "float64":
        case.own = [x.detach().double().requires_grad_() for x in case.own]
        case.dtype = torch.float64
        TOLERANCE[torch.float64] = 1e-10
    call = torch.compile(flex_attention, fullgraph=True)
    with torch.no_grad():
        o, code = run_and_get_code(lambda: call(*case.own, score_mod=score(None)))
    assert not any("aule_flex" in text for text in code)
    assert_close(o, reference(*case.exact, score(None))[0], rtol=1e-4, atol=1e-4)


def test_deterministic_gradients_take_the_dense_form(device):
    captured = {"bias": torch.randn(2, dtype=torch.float64)}

    def score(t):
        return lambda score, b, h, m, n: score + t["bias"][h] * torch.sin(n * 1.0)

    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(AssertionError, match="aule_flex_dq"):
            Case(device, captured=captured, trained=("bias",)).check(score, causal)
        Case(device, captured=captured, trained=("bias",)).check(score, causal, kernels=False)
    finally:
        torch.use_deterministic_algorithms(False)


def test_fields_of_a_block_mask():
    from torch_aule.compile.flex.problem import fields_of

    for count in (13, 17):
        pairs, *rest = fields_of(tuple(range(count)))
        assert pairs == [(2, 3), (4, 5), (6, 7), (8, 9)] and rest == list(range(count - 3, count))
    with pytest.raises(NotImplementedError):
        fields_of(tuple(range(15)))


@pytest.mark.parametrize("seed", range(200 if os.environ.get("TORCH_AULE_LONG_TESTS") else 6))
def test_random_modifiers(device, seed):
    length = 20 + seed % 5 * 9
    modifiers = RandomModifiers(seed, 2, 2, length)
    case = Case(device, lengths=(length, length), captured=modifiers.tensors, trained=modifiers.trained())
    mask = modifiers.mask_mod if modifiers.mask_steps else None
    case.check(modifiers.score_mod, mask, block=16 if seed % 2 else 128, lse=seed % 3 == 0,
               lane_rows=seed % 4 < 2)  # fmt: skip
