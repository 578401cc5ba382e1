"""A token of each row of logits, drawn by one kernel: what can be drawn, how often, and its log probability."""

import math

import pytest
import torch

from helpers import FLOATS
from torch_aule import functional

pytestmark = pytest.mark.validated

DRAWS = 1024
sample = torch.ops.aule.sample


def on_device(x, dtype=torch.float32):
    return torch.tensor(x, dtype=dtype, device="aule")


def kept(z, top_k=0, top_p=1.0, min_p=0.0):
    """Which of z, float64 [n], can be drawn; ties of the last one too."""
    mask = torch.ones_like(z, dtype=torch.bool)
    if top_k:
        mask = z >= z.topk(min(top_k, z.numel())).values[-1]
    p = z.masked_fill(~mask, -math.inf).softmax(0)
    if top_p < 1:
        order = p.argsort(descending=True)
        before = p[order].cumsum(0) - p[order]
        mask &= z >= z[order[before < top_p]].min()
    return mask & (p >= min_p * p.max())


def check_draws(logits, temperature=1.0, dtype=torch.float32, **limits):
    """Draws DRAWS tokens. No count is as far from its expectation as Bernstein's inequality gives e^-30 to."""
    logits = logits.to(dtype)
    z = logits.double() / temperature
    mask = kept(z, **limits)
    p = z.masked_fill(~mask, -math.inf).log_softmax(0)
    given = {
        name: on_device(value, torch.int32 if name == "top_k" else torch.float32) for name, value in limits.items()
    }
    rows = logits.to("aule").expand(DRAWS, -1)
    tokens, log_p = sample(rows, on_device(temperature), **given)
    assert tokens.shape == log_p.shape == (DRAWS,) and tokens.dtype == torch.int64 and log_p.dtype == torch.float32
    tokens = tokens.cpu()
    counts = tokens.bincount(minlength=logits.numel()).double()
    assert not counts[~mask].any()
    expected = DRAWS * p.exp()
    assert bool(((counts - expected).abs() <= 10 + (100 + 60 * expected * (1 - p.exp())).sqrt()).all())
    # Roundings of z, and exp, whose error grows with its argument.
    spread = (z.max() - z[mask].min()).item() + z.abs().max().item()
    assert (log_p.cpu() - p[tokens]).abs().max() <= (32 + 8 * spread) * 2.0**-23


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 37, 300])
def test_draws_as_often_as_their_probabilities_say(n, dtype):
    check_draws(2 * torch.randn(n), dtype=dtype)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize(
    "limits",
    [{"top_k": 5}, {"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 20, "top_p": 0.8, "min_p": 0.05}, {"top_k": 1000}],
)
def test_limits(temperature, limits):
    """Steps between probabilities are far wider than 2^-24, so that both find the same limit."""
    z = torch.randperm(60).float() / 8 + torch.rand(()).item() / 64
    check_draws(z, temperature, **limits)


def test_equal_ones_are_kept_together():
    check_draws(torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0, 2.0]), top_k=2)
    check_draws(torch.tensor([3.0, 1.0, 1.0, 1.0]), top_p=0.75)
    assert sample(on_device([[1.0, 4.0, 4.0]]), on_device(0.0))[0].item() == 1


def test_the_largest():
    logits = torch.randn(5, 1000)
    for given in ({"temperature": on_device(0.0)}, {"top_k": on_device(1, torch.int32)}, {"top_p": on_device(0.0)},
                  {"min_p": on_device(1.0)}):  # fmt: skip
        assert torch.equal(sample(logits.to("aule"), **given)[0].cpu(), logits.argmax(1))
    masked = torch.full((2, 9), -math.inf)
    masked[:, 4] = 1.0
    masked[1, 2] = math.nan  # is never drawn
    token, log_p = sample(masked.to("aule"))
    assert token.tolist() == [4, 4] and log_p.tolist() == [0, 0]


def test_a_number_for_each_row():
    logits = torch.randn(3, 50)
    temperature, top_k = on_device([0.0, 1.0, 1.0]), on_device([0, 1, 3], torch.int32)
    for _ in range(5):
        token = sample(logits.to("aule"), temperature, top_k)[0].cpu()
        assert torch.equal(token[:2], logits[:2].argmax(1)) and token[2] in logits[2].topk(3).indices


def test_penalties():
    logits, counts = torch.randn(4, 200), torch.randint(0, 3, (4, 200), dtype=torch.int32)
    numbers = {"repetition_penalty": 1.5, "presence_penalty": 0.25, "frequency_penalty": 0.5}
    given = {name: on_device(value) for name, value in numbers.items()}
    token, _ = sample(logits.to("aule"), on_device(0.0), counts=counts.to("aule"), **given)
    x = logits.double()
    punished = torch.where(x > 0, x / 1.5, x * 1.5) - 0.25 - 0.5 * counts
    x = torch.where(counts > 0, punished, x)
    assert (x.max(1).values - x.gather(1, token.cpu()[:, None])[:, 0]).max() <= 2.0**-21  # three roundings


@pytest.mark.parametrize("rows, n", [(2, 151936), (700, 3)])
def test_long_rows_and_many(rows, n):
    logits = torch.randn(rows, n + 5)[:, 2:-3]
    there = torch.zeros(rows, n + 5, device="aule")[:, 2:-3].copy_(logits)
    assert torch.equal(sample(there, on_device(0.0))[0].cpu(), logits.argmax(1))
    limits = on_device(1.0), on_device(2, torch.int32), on_device(0.9)
    token = sample(there, *limits)[0].cpu()
    assert bool((token[:, None] == logits.topk(2).indices).any(1).all())


def test_seeds_and_graphs():
    logits = torch.randn(64, 500, device="aule")
    torch.aule.manual_seed(7)
    first, again = sample(logits)[0], sample(logits)[0]
    torch.aule.manual_seed(7)
    assert torch.equal(sample(logits)[0], first) and not torch.equal(first, again)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        token = sample(logits)[0]
    seen = []
    for _ in range(2):
        graph.replay()
        seen.append(token.clone())
    assert not torch.equal(*seen)


def test_errors_and_tracing():
    logits = torch.randn(3, 8, device="aule")
    cases = [
        ("logits", lambda: sample(logits[0])),
        ("logits", lambda: sample(logits.int())),
        ("temperature to be one number or 3", lambda: sample(logits, on_device([1.0, 1.0]))),
        ("top_k to be one number or 3 of Int", lambda: sample(logits, None, on_device(3.0))),
        ("counts of int32", lambda: sample(logits, counts=torch.zeros(3, 8, device="aule"))),
        ("1 to .* tokens", lambda: sample(logits[:, :0])),
    ]
    for text, call in cases:
        with pytest.raises(RuntimeError, match="sample: expected " + text):
            call()
    assert sample(logits[:0])[0].shape == (0,)
    torch.library.opcheck(torch.ops.aule.sample.default, (logits,), test_utils=("test_schema", "test_faketensor"))


def test_the_public_function():
    logits = torch.randn(4, 50, device="aule")
    largest = logits.argmax(1)
    token, log_probability = functional.sample(logits, 0.0)
    assert torch.equal(token, largest) and not log_probability.any()
    each = torch.tensor([0.0, 1.0, 1.0, 1.0])  # options of rows, from the host
    token, _ = functional.sample(logits, each, top_k=torch.tensor([0, 1, 1, 1]))
    assert torch.equal(token, largest)
    counts = torch.zeros(4, 50, dtype=torch.int32, device="aule").scatter_(1, largest[:, None], 1)
    token, _ = functional.sample(logits, 0.0, counts=counts, presence_penalty=1e3)
    assert torch.equal(token, logits.scatter(1, largest[:, None], -math.inf).argmax(1))
    token, _ = functional.sample(logits, 0.0, counts=counts, frequency_penalty=1e3, repetition_penalty=2.0)
    assert not (token == largest).any()
    generators = [torch.Generator("aule").manual_seed(3) for _ in range(2)]
    one, other = (functional.sample(logits, 2.0, top_p=0.9, min_p=0.01, generator=g)[0] for g in generators)
    assert torch.equal(one, other)


def test_topk_sample():
    logits = torch.randn(3, 40, device="aule")
    assert torch.equal(torch.ops.aule.topk_sample(logits, 1), logits.argmax(1))
    assert torch.equal(torch.ops.aule.topk_sample(logits, 0, 0.0), logits.argmax(1))
    best = logits.topk(5).indices
    for _ in range(20):
        assert (best == torch.ops.aule.topk_sample(logits, 5, 3.0)[:, None]).any(1).all()
