"""aule::accept_likeliest: the likeliest tokens of a step, and which of them each sequence keeps."""

import pytest
import torch

pytestmark = pytest.mark.validated
OP = torch.ops.aule.accept_likeliest
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def expected(logits, guesses, active, accepted, tokens, lengths):
    """By torch.argmax on the CPU and a loop; changes the last three."""
    batch, each, _ = logits.shape
    drawn = logits.argmax(-1)
    for b in range(batch):
        right = 0
        while right < each - 1 and guesses[b, right] == drawn[b, right]:
            right += 1
        kept = right + 1 if active[b] else 0
        accepted[b, 0], accepted[b, 1 : 1 + each] = kept, drawn[b]
        tokens[b] = drawn[b, right]
        lengths[b] += kept


def check(logits, likely: float = 0.7, on_device=None):
    """Guesses are right with a probability; `on_device` is what the kernel reads in place of a copy."""
    batch, each, n = logits.shape
    drawn = logits.argmax(-1)
    guesses = None
    if each > 1:
        right = torch.rand(batch, each - 1) < likely
        guesses = torch.where(right, drawn[:, :-1], torch.randint(n, (batch, each - 1)))
    active = torch.randint(2, (batch,), dtype=torch.int32)
    whole = torch.full((batch + 2, each + 4), -1)  # neighbours stay as they are
    tokens, lengths = torch.full((batch,), -1), torch.randint(50, (batch,), dtype=torch.int32)
    read = logits.to("aule") if on_device is None else on_device
    own = [None if guesses is None else guesses.to("aule"), *(t.to("aule") for t in (active, whole, tokens, lengths))]
    OP(read, *own[:2], own[2][1:-1, 1:-1], *own[3:])
    expected(logits, guesses, active, whole[1:-1, 1:-1], tokens, lengths)
    for actual, wanted in zip(own[2:], (whole, tokens, lengths)):
        assert torch.equal(actual.cpu(), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("batch", [1, 5])
def test_the_largest_is_drawn(batch, each, dtype):
    for n in (1, 7, 4096, 4097, int(torch.randint(2, 40000, ()))):
        check(torch.randn(batch, each, n).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_equal_ones_the_first_and_nan_before_all(dtype):
    for n in (33, 9000, 32000):
        values = torch.randint(-2, 3, (2, 3, n)).to(dtype)
        values[values == 0] *= -1  # -0 is no less than 0
        values[torch.rand(values.shape) < 0.5] *= 0
        check(values)
        check(torch.full((1, 2, n), -torch.inf, dtype=dtype))
        values[torch.rand(values.shape) < 2 / n] = torch.nan
        values[torch.rand(values.shape) < 2 / n] = torch.inf
        check(values)
    logits = torch.full((1, 1, 20000), torch.inf)
    logits[0, 0, 17777] = -torch.tensor(torch.nan)  # of any sign
    check(logits)


def test_rows_that_lie_anywhere():
    whole = torch.randn(3, 4, 5003, dtype=torch.bfloat16)
    device = whole.to("aule")
    for part in (
        (slice(None), slice(0, 1), slice(1, 5000)),  # off 16 bytes
        (slice(None, None, 2), slice(1, 3), slice(0, 4999)),
        (slice(None), slice(None), slice(0, 5000, 3)),
    ):
        check(whole[part], on_device=device[part])


def test_long_rows_and_many_calls():
    """A real vocabulary; counters are zero again after each call."""
    for batch, each in ((2, 1), (1, 2), (3, 1)):
        check(torch.randn(batch, each, 128256).bfloat16())


def test_in_a_graph():
    logits = torch.randn(2, 1, 30000, device="aule")
    active, lengths = (torch.ones(2, dtype=torch.int32, device="aule") for _ in range(2))
    tokens, accepted = (torch.zeros(*shape, dtype=torch.int64, device="aule") for shape in ((2,), (2, 2)))
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        for _ in range(2):
            OP(logits, None, active, accepted, tokens, lengths)
    for turn in range(3):
        new = torch.randn(2, 1, 30000)
        logits.copy_(new)
        graph.replay()
        assert torch.equal(tokens.cpu(), new.argmax(-1)[:, 0])
        assert lengths.tolist() == [1 + 2 * (turn + 1)] * 2


def test_empty_and_errors():
    logits, guesses = torch.zeros(2, 3, 9, device="aule"), torch.zeros(2, 2, dtype=torch.int64, device="aule")
    rows, accepted = torch.zeros(2, dtype=torch.int64, device="aule"), guesses.new_zeros(2, 4)
    OP(logits[:0], guesses[:0], rows[:0], accepted[:0], rows[:0], rows[:0])
    for message, arguments in (
        ("logits of shape", (logits[0], guesses, rows, accepted, rows, rows)),
        ("logits of shape", (logits.long(), guesses, rows, accepted, rows, rows)),
        ("logits of shape", (logits[..., :0], guesses, rows, accepted, rows, rows)),
        ("expected guesses for 3 tokens", (logits, None, rows, accepted, rows, rows)),
        ("guesses of shape", (logits, guesses.int(), rows, accepted, rows, rows)),
        ("active of shape", (logits, guesses, rows[:1], accepted, rows, rows)),
        ("accepted of shape", (logits, guesses, rows, guesses, rows, rows)),
        ("memory", (logits, guesses, rows, accepted, rows, rows)),
    ):
        with pytest.raises(RuntimeError, match=message):
            OP(*arguments)
