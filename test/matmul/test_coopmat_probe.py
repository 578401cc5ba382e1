"""What is believed of the answer of the probe of matrix layouts: a device that lies must not end the process."""

import math
import random
import struct
import sys
from pathlib import Path

import pytest
import torch

import torch_aule
from helpers import check_program, without

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "chips"))
import matrix_probes  # noqa: E402

WORDS = 4 + 3 * 128 * 8 + 256
ACC = 4 + 2 * 128 * 8  # where the accumulator's places begin
PRODUCT = 4 + 3 * 128 * 8


def read(words, m=16, n=16, least=1, most=128):
    return torch_aule._C.read_matrix_probe(words, m, n, least, most)


def usable_known_handed(words, *args):
    layout = read(words, *args)
    assert layout["usable"] or not layout["known"]
    assert layout["known"] or not layout["acc_is_a_operand"]
    assert not layout["usable"] or layout["subgroup"] > 0  # planners divide by it
    return layout["usable"], layout["known"], layout["acc_is_a_operand"]


def places(layout):
    """The (row, column) of each lane's elements, as the kernels compute them."""

    def nibble(word, i):
        return word >> (4 * i) & 15

    return [
        (
            lane // layout["lane_div"] * layout["lane_row"] + nibble(layout["rows"], e),
            lane % layout["lane_div"] * layout["lane_col"] + nibble(layout["cols"], e),
        )
        for lane in range(layout["subgroup"])
        for e in range(layout["elements"])
    ]


@pytest.mark.parametrize(
    "words, side, expected",
    [
        (matrix_probes.nvidia(), 16, (True, True, True)),
        (matrix_probes.lavapipe(), 8, (True, True, False)),
        (matrix_probes.rdna3(64), 16, (True, True, False)),
        (matrix_probes.rdna3(32), 16, (True, True, False)),
        (matrix_probes.rdna4(32), 16, (True, True, False)),
        (matrix_probes.rdna4(64), 16, (True, False, False)),  # in no order that kernels follow
    ],
)
def test_true_answers(words, side, expected):
    assert usable_known_handed(words, side, side) == expected
    layout = read(words, side, side)
    if expected[1]:
        said = [
            divmod(words[ACC + 8 * lane + e], 16)
            for lane in range(layout["subgroup"])
            for e in range(layout["elements"])
        ]
        assert places(layout) == said
        assert sorted(said) == [(r, c) for r in range(side) for c in range(side)]
    assert read(matrix_probes.nvidia(truncates=True))["truncates"]


def test_zeros_and_wrong_lengths():
    assert usable_known_handed([0] * WORDS) == (False, False, False)
    good = matrix_probes.nvidia()
    assert len(good) == WORDS
    for count in (0, 1, 3, 4, 100, WORDS - 1):
        assert not read(good[:count])["usable"]
    assert not read([*good, 0])["usable"]


def test_random_answers_are_never_a_layout():
    for _ in range(300):
        words = [random.getrandbits(32) for _ in range(WORDS)]
        assert usable_known_handed(words) == (False, False, False)
        words[:4] = matrix_probes.nvidia()[:4]
        assert usable_known_handed(words) == (False, False, False)  # the product is wrong
        words[PRODUCT:] = matrix_probes.nvidia()[PRODUCT:]
        assert usable_known_handed(words) == (True, False, False)  # right products, in no order


@pytest.mark.parametrize("value", [0, 3, 24, 31, 64, 129, 256, 1 << 16, 32 | 1 << 20, 0xFFFFFFFF])
def test_subgroups_that_the_device_cannot_have(value):
    words = matrix_probes.nvidia()
    words[3] = value
    assert not read(words, 16, 16, 32, 32)["usable"]


@pytest.mark.parametrize("use", [0, 1, 2])
@pytest.mark.parametrize("length", [0, 1, 7, 257, 0xFFFFFFFF])
def test_lanes_that_cannot_hold_the_matrix(use, length):
    words = matrix_probes.nvidia()
    words[use] = length
    assert not read(words)["usable"]


@pytest.mark.parametrize("value", [0.0, -1.0, 1.02, math.inf, math.nan])
def test_wrong_products_leave_no_matrix_units(value):
    """Relative to the right one, in any place; one within rounding is right."""
    for _ in range(20):
        words = matrix_probes.nvidia()
        i = PRODUCT + random.randrange(256)
        right = struct.unpack("<f", struct.pack("<I", words[i]))[0]
        words[i] = struct.unpack("<I", struct.pack("<f", right * value))[0]
        assert not read(words)["usable"]
        words[i] = struct.unpack("<I", struct.pack("<f", right * 1.001))[0]
        assert read(words)["known"]


def test_places_that_are_no_permutation():
    """One element elsewhere than said, or twice in the same place: products are right, the order is unknown."""
    for _ in range(200):
        words = matrix_probes.nvidia()
        i = ACC + random.randrange(32 * 8)
        words[i] = random.choice([words[i] ^ (1 << random.randrange(8)), 256, 0xFFFFFFFF])
        assert usable_known_handed(words) == (True, False, False)
    words = matrix_probes.nvidia()
    words[ACC : ACC + 32 * 8] = [0] * (32 * 8)  # a constant is the sum of nothing and nothing
    assert usable_known_handed(words) == (True, False, False)


def test_operands_in_another_order_are_not_handed_over():
    for _ in range(50):
        words = matrix_probes.nvidia()
        i = 4 + random.randrange(32 * 8)
        words[i] ^= 1 << random.randrange(8)
        assert usable_known_handed(words) == (True, True, False)
    words = matrix_probes.nvidia()
    words[4 + 128 * 8 + random.randrange(32 * 8)] ^= 3
    assert read(words)["acc_is_a_operand"] and not read(words)["b_is_a_transposed"]


def test_a_layout_in_use_cannot_be_stated():
    torch_aule._C.matrix_layout(0, False)
    with pytest.raises(RuntimeError, match="in use already"):
        torch_aule._C.state_matrix_probe(0, False, matrix_probes.nvidia())


@pytest.mark.parametrize("count", [WORDS, 7])
def test_a_device_whose_probe_says_nothing_computes_without_matrix_units(count):
    """As a GPU, so that the planners ask for matrices at all where the device is a CPU."""
    seed = str(torch.randint(1 << 30, ()).item())
    check_program("coopmat_silent_probe", str(count), seed, **without("cpu_kernels"))
