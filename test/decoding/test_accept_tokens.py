"""aule::accept_tokens: which of a step's tokens each sequence keeps."""

import pytest
import torch

pytestmark = pytest.mark.validated
OP = torch.ops.aule.accept_tokens


@pytest.mark.parametrize("each", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 3, 70])
def test_right_guesses_are_kept(batch, each):
    drawn = torch.randint(3, (batch, each))
    guesses = torch.randint(3, (batch, each - 1)) if each > 1 else None
    active = torch.randint(2, (batch,), dtype=torch.int32)
    whole = torch.full((batch + 2, each + 4), -1)  # neighbours stay as they are
    lengths, tokens = torch.randint(50, (batch,), dtype=torch.int32), torch.full((batch,), -1)
    on_device = [None if t is None else t.to("aule") for t in (drawn, guesses, active, whole, tokens, lengths)]
    OP(*on_device[:3], on_device[3][1:-1, 1:-1], *on_device[4:])
    for b in range(batch):
        right = 0
        while right < each - 1 and guesses[b, right] == drawn[b, right]:
            right += 1
        kept = right + 1 if active[b] else 0
        whole[1 + b, 1], whole[1 + b, 2 : 2 + each] = kept, drawn[b]
        tokens[b] = drawn[b, right]
        lengths[b] += kept
    for actual, expected in zip(on_device[3:], (whole, tokens, lengths)):
        assert torch.equal(actual.cpu(), expected)


def test_long_lengths_and_empty():
    drawn, tokens = torch.tensor([[7]], device="aule"), torch.zeros(1, dtype=torch.int64, device="aule")
    accepted = torch.zeros(1, 2, dtype=torch.int64, device="aule")
    lengths = torch.tensor([2**40], device="aule")
    OP(drawn, None, torch.ones(1, dtype=torch.int64, device="aule"), accepted, tokens, lengths)
    assert (lengths.item(), tokens.item(), accepted.tolist()) == (2**40 + 1, 7, [[1, 7]])
    OP(drawn[:0], None, lengths[:0], accepted[:0], tokens[:0], lengths[:0])


def test_errors():
    drawn, guesses = (torch.zeros(2, n, dtype=torch.int64, device="aule") for n in (3, 2))
    rows, accepted = torch.zeros(2, dtype=torch.int64, device="aule"), drawn.new_zeros(2, 4)
    for message, arguments in (
        ("drawn of shape", (drawn.int(), guesses, rows, accepted, rows, rows)),
        ("expected guesses for 3 tokens", (drawn, None, rows, accepted, rows, rows)),
        ("guesses of shape", (drawn, drawn, rows, accepted, rows, rows)),
        ("active of shape", (drawn, guesses, rows[:1], accepted, rows, rows)),
        ("tokens of dtype Long", (drawn, guesses, rows, accepted, rows.int(), rows)),
        ("accepted of shape", (drawn, guesses, rows, drawn, rows, rows)),
        ("memory", (drawn, guesses, rows, accepted, rows, rows)),
    ):
        with pytest.raises(RuntimeError, match=message):
            OP(*arguments)
