"""Tables of positions against their papers' formulas in float64, and attention that takes them."""

import math
import re
from pathlib import Path

import pytest
import torch

import torch_aule
from helpers import FLOATS
from torch_aule import functional as aule

TOLERANCE = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 4e-2}


def angles_of(cos, sin):
    """Frequencies, from position 1, as the tables have them; those of the tests are below pi."""
    return torch.atan2(sin[1].double(), cos[1].double())


def close(actual, expected, dtype):
    error = (actual.detach().cpu().double() - expected.detach().double()).abs().max().item()
    assert error < TOLERANCE[dtype] * max(1.0, expected.abs().max().item()), error


@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_rope_tables(base):
    cos, sin = aule.precompute_rope_frequencies(33, 12, base, device="aule")
    assert cos.shape == sin.shape == (33, 6) and cos.dtype == torch.float32 and cos.device.type == "aule"
    for t in (0, 1, 32):
        for j in range(6):
            angle = t * base ** (-2 * j / 12)
            assert abs(cos[t, j].item() - math.cos(angle)) < 1e-6 and abs(sin[t, j].item() - math.sin(angle)) < 1e-6
    assert aule.precompute_rope_frequencies(5, 8, dtype=torch.bfloat16)[0].dtype == torch.bfloat16
    assert aule.precompute_rope_frequencies(0, 8)[0].shape == (0, 4)


def transformers_frequencies(kind, head_dim, base, **parameters):
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    longest = parameters.pop("longest", 4096)
    config = LlamaConfig(
        hidden_size=head_dim * 2,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=longest,
        rope_parameters={"rope_type": kind, "rope_theta": base, **parameters},
    )
    seq_len = parameters.get("seq_len")
    frequencies, factor = utils.ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=seq_len)
    return frequencies.double(), factor


@pytest.mark.parametrize("scale", [1.0, 2.5, 16.0])
def test_linear_and_ntk_tables(scale):
    pairs = torch.arange(0, 32, 2).double() / 32
    linear = angles_of(*aule.linear_rope_frequencies(3, 32, 9000.0, scale, dtype=torch.float64))
    torch.testing.assert_close(linear, 9000.0**-pairs / scale, rtol=1e-9, atol=0)
    torch.testing.assert_close(
        linear, transformers_frequencies("linear", 32, 9000.0, factor=scale)[0], rtol=1e-5, atol=0
    )
    ntk = angles_of(*aule.ntk_rope_frequencies(3, 32, 9000.0, scale, dtype=torch.float64))
    torch.testing.assert_close(ntk, (9000.0 * scale ** (32 / 30)) ** -pairs, rtol=1e-9, atol=0)
    assert ntk[0] == angles_of(*aule.precompute_rope_frequencies(3, 32, 9000.0, dtype=torch.float64))[0]
    assert math.isclose(ntk[-1], 9000.0 ** -pairs[-1] / scale, rel_tol=1e-9)  # the slowest pair: `scale` times slower


def test_ntk_is_the_dynamic_form_at_its_length():
    """With a factor of 1 that form scales the base by the length over that of the training."""
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 1.0}
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=2, head_dim=32, max_position_embeddings=512, rope_parameters=rope
    )
    expected, _ = utils.ROPE_INIT_FUNCTIONS["dynamic"](config, torch.device("cpu"), seq_len=2048)
    actual = angles_of(*aule.ntk_rope_frequencies(3, 32, 10000.0, 4.0, dtype=torch.float64))
    torch.testing.assert_close(actual, expected.double(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("scale", [1.0, 4.0, 32.0])
@pytest.mark.parametrize("head_dim, length, fast, slow", [(128, 4096, 32.0, 1.0), (64, 2048, 16.0, 2.0), (8, 9, 1, 1)])
def test_yarn_tables(scale, head_dim, length, fast, slow):
    cos, sin = aule.yarn_rope_frequencies(
        7, head_dim, 10000.0, scale, length, beta_fast=fast, beta_slow=slow, dtype=torch.float64
    )
    expected, factor = transformers_frequencies(
        "yarn",
        head_dim,
        10000.0,
        factor=scale,
        original_max_position_embeddings=length,
        beta_fast=fast,
        beta_slow=slow,
    )
    assert math.isclose(factor, 0.1 * math.log(scale) + 1)
    torch.testing.assert_close(angles_of(cos, sin), expected, rtol=1e-4, atol=1e-9)
    torch.testing.assert_close((cos**2 + sin**2).sqrt(), torch.full_like(cos, factor), rtol=1e-12, atol=0)
    hot, _ = aule.yarn_rope_frequencies(2, head_dim, scale=scale, original_max_len=length, mscale=0.3)
    assert math.isclose(hot[0, 0].item(), 0.3 * math.log(scale) + 1, rel_tol=1e-6)


@pytest.mark.parametrize("phased", [False, True])
def test_pope_scores(phased):
    q, k = torch.randn(2, 3, 5, 9).double(), torch.randn(2, 3, 7, 9).double()
    phase = -torch.rand(3, 1, 9).double() * 6 if phased else None
    tables = aule.precompute_pope_frequencies(7, 9, 100.0, dtype=torch.float64)
    scores = aule.apply_pope(q, *tables) @ aule.apply_pope(k, *tables, phase).mT
    softplus = torch.nn.functional.softplus
    expected = torch.zeros_like(scores)
    for t in range(5):
        for s in range(7):
            turn = (s - t) * 100.0 ** (-torch.arange(9).double() / 9)
            turn = turn + (phase[:, 0] if phased else 0)
            expected[..., t, s] = (softplus(q[..., t, :]) * softplus(k[..., s, :]) * turn.cos()).sum(-1)
    torch.testing.assert_close(scores, expected)


def test_pope_on_the_device():
    q, k, v = (torch.randn(2, 3, 21, 8, device="aule").requires_grad_() for _ in range(3))
    phase = (-torch.rand(3, 1, 8)).to("aule").requires_grad_()
    tables = aule.precompute_pope_frequencies(21, 8, device="aule")
    out = torch_aule.flash_attention(
        aule.apply_pope(q, *tables), aule.apply_pope(k, *tables, phase), v, causal=False, scale=8**-0.5
    )
    out.square().sum().backward()
    wide = [t.detach().cpu().double().requires_grad_() for t in (q, k, v, phase)]
    tables = aule.precompute_pope_frequencies(21, 8, device="cpu", dtype=torch.float64)
    scores = aule.apply_pope(wide[0], *tables) @ aule.apply_pope(wide[1], *tables, wide[3]).mT * 8**-0.5
    expected = scores.softmax(-1) @ wide[2]
    expected.square().sum().backward()
    close(out, expected, torch.float32)
    for a, e in zip((q, k, v, phase), wide):
        close(a.grad, e.grad, torch.float32)


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 16])
def test_alibi_slopes(heads):
    """Section 3 of the paper: a geometric sequence that begins at its own ratio, 2 ** (-8 / n)."""
    slopes = aule.alibi_slopes(heads, device="aule")
    assert slopes.shape == (heads,) and slopes.dtype == torch.float32 and slopes.device.type == "aule"
    whole = 2 ** int(math.log2(heads))
    expected = [2 ** (-8 / whole * (i + 1)) for i in range(whole)]
    expected += [2 ** (-4 / whole * (2 * i + 1)) for i in range(heads - whole)]
    torch.testing.assert_close(slopes.cpu(), torch.tensor(expected))


def composed(q, k, v, cos, sin, causal, scale, window):
    def turn(x):
        c, s = (torch.cat((t, t), -1)[: x.size(-2)] for t in (cos, sin))
        half = x.size(-1) // 2
        return x * c + torch.cat((-x[..., half:], x[..., :half]), -1) * s

    group = q.size(-3) // k.size(-3)
    k, v = (t.repeat_interleave(group, -3) for t in (turn(k), v))
    scores = turn(q) @ k.mT * (q.size(-1) ** -0.5 if scale is None else scale)
    seen = torch.arange(k.size(-2)) - torch.arange(q.size(-2))[:, None]
    hidden = (seen > 0) if causal else torch.zeros_like(seen, dtype=torch.bool)
    if window >= 0:  # with causal that many keys, the query's own among them, else half of the number on each side
        hidden |= seen.abs() > (window - 1 if causal else window // 2)
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


@pytest.mark.validated
@pytest.mark.parametrize("causal, window", [(True, -1), (False, -1), (True, 3), (False, 4)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_flash_attention_rope(dtype, causal, window):
    shapes = (2, 4, 19, 24), (2, 2, 19, 24), (2, 2, 19, 10)
    q, k, v = (torch.randn(s).to(dtype) for s in shapes)
    scale = 0.3 if window == 3 else None
    cos, sin = aule.precompute_rope_frequencies(23, 24, device="aule")
    here = [t.to("aule").requires_grad_() for t in (q, k, v)]
    out = aule.flash_attention_rope(*here, cos[None], sin[None], causal, scale, window)
    wide = [t.double().requires_grad_() for t in (q, k, v)]
    tables = aule.precompute_rope_frequencies(23, 24, device="cpu", dtype=torch.float64)
    expected = composed(*wide, *tables, causal, scale, window)
    assert out.dtype == dtype
    close(out, expected, dtype)
    grad = torch.randn(expected.shape).to(dtype)
    out.backward(grad.to("aule"))
    expected.backward(grad.double())
    for a, e in zip(here, wide):
        close(a.grad, e.grad, dtype)
    turned = aule.apply_rope_separate(*here[:2], cos, sin)
    assert torch.equal(out, torch_aule.flash_attention(*turned, here[2], causal, scale, window_size=window))


@pytest.mark.parametrize("causal, window, sees", [(True, 4, [1, 2, 3, 4, 4, 4, 4]), (True, 1, [1] * 7),
                                                  (False, 4, [3, 4, 5, 5, 5, 4, 3]), (False, 1, [1] * 7),
                                                  (True, -1, [1, 2, 3, 4, 5, 6, 7]), (False, -1, [7] * 7)])  # fmt: skip
def test_a_window_is_the_number_of_keys_that_a_query_sees(causal, window, sees):
    """Queries of zeros give each visible key the same weight, and rows of the unit matrix show which ones they are."""
    q, v = torch.zeros(1, 1, 7, 8), torch.eye(7)[None, None]
    here, values = q.to("aule"), torch.nn.functional.pad(v, (0, 1)).to("aule")
    cos, sin = aule.precompute_rope_frequencies(7, 8, device="aule")
    seen = {"causal": causal, "window_size": window}
    for out in (torch_aule.flash_attention(here, here, values, **seen),
                aule.flash_attention_rope(here, here, values, cos, sin, **seen)):  # fmt: skip
        assert (out[0, 0] > 0).sum(-1).tolist() == sees
    with pytest.raises(ValueError, match="flash_attention_rope: expected window_size of -1 or at least 1"):
        aule.flash_attention_rope(here, here, values, cos, sin, window_size=0)


@pytest.mark.parametrize("shape", [(3, 9, 8), (0, 2, 5, 8), (2, 2, 0, 8)])
def test_flash_attention_rope_of_other_shapes(shape):
    """Without a batch, of views, and without elements."""
    x = torch.randn(*shape[:-2], shape[-1], shape[-2] + 1)[..., 1:].mT
    q = x.to("aule")
    cos, sin = aule.precompute_rope_frequencies(12, 8, device="aule")
    out = aule.flash_attention_rope(q, q, q, cos, sin)
    assert out.shape == q.shape
    if x.numel():
        tables = aule.precompute_rope_frequencies(12, 8, device="cpu", dtype=torch.float64)
        close(out, composed(*[x.double()] * 3, *tables, True, None, -1), torch.float32)


def test_flash_attention_rope_compiled():
    pytest.importorskip("torch_aule.compile")
    cos, sin = aule.precompute_rope_frequencies(16, 16, device="aule")
    tensors = [torch.randn(1, 2, 16, 16, device="aule").requires_grad_() for _ in range(3)]
    compiled = torch.compile(aule.flash_attention_rope, fullgraph=True, backend="aot_eager")
    gradients = []
    for function in (aule.flash_attention_rope, compiled):
        for t in tensors:
            t.grad = None
        function(*tensors, cos, sin).square().sum().backward()
        gradients.append([t.grad.cpu() for t in tensors])
    torch.testing.assert_close(*gradients)


def test_errors():
    q = torch.randn(1, 2, 6, 8, device="aule")
    cos, sin = aule.precompute_rope_frequencies(6, 8, device="aule")
    cases = [
        (ValueError, "expected cos of shape .*4", lambda: aule.flash_attention_rope(q, q, q, cos[:, :3], sin)),
        (ValueError, "expected sin of shape", lambda: aule.apply_rope_separate(q, q, cos, torch.stack((sin, sin)))),
        (RuntimeError, "expected cos on device aule", lambda: aule.flash_attention_rope(q, q, q, cos.cpu(), sin)),
        (RuntimeError, "6 tokens, but the tables have 5", lambda: aule.flash_attention_rope(q, q, q, cos[:5], sin[:5])),
        (
            TypeError,
            "window_size to be an int",
            lambda: aule.flash_attention_rope(q, q, q, cos, sin, window_size=(1, 1)),
        ),
        (ValueError, "an even head_dim", lambda: aule.precompute_rope_frequencies(4, 7)),
        (ValueError, "seq_len of at least 0", lambda: aule.yarn_rope_frequencies(-1, 8)),
        (ValueError, "scale above 0", lambda: aule.linear_rope_frequencies(4, 8, scale=0.0)),
        (ValueError, "base above 1", lambda: aule.ntk_rope_frequencies(4, 8, base=1.0)),
        (ValueError, "head_dim of at least 4", lambda: aule.ntk_rope_frequencies(4, 2)),
        (ValueError, "beta_fast >= beta_slow", lambda: aule.yarn_rope_frequencies(4, 8, beta_fast=1.0, beta_slow=2.0)),
        (ValueError, "original_max_len", lambda: aule.yarn_rope_frequencies(4, 8, original_max_len=0)),
        (ValueError, "num_heads", lambda: aule.alibi_slopes(0)),
        (ValueError, "expected cos of shape", lambda: aule.apply_pope(q, cos, sin)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()


def test_examples_of_the_page_run():
    page = (Path(__file__).resolve().parents[2] / "docs" / "use" / "positions.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    assert names["out"].isfinite().all() and names["q"].grad.any()
