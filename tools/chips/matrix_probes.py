"""Answers of the probe of matrix layouts (csrc/ops/coopmat/probe.h), made by hand.

For devices that compile and execute nothing (`chip_statistics.py`) and for the tests of what is believed. A layout is
three functions (lane, element) -> (row, column) for A, B and the accumulator, and how many elements a lane has of each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

LANES, ELEMENTS, SIDE = 128, 8, 16
Place = Callable[[int, int], tuple[int, int]]


def transposed(place: Place) -> Place:
    """The same elements with row and column exchanged."""
    return lambda lane, e: place(lane, e)[::-1]


def probe_words(
    m: int,
    n: int,
    subgroup: int,
    a: tuple[int, Place],
    b: tuple[int, Place],
    acc: tuple[int, Place],
    truncates: bool = False,
) -> list[int]:
    """The words of a MatrixProbe, with the right product."""
    words = [a[0], b[0], acc[0], subgroup | (65536 if truncates else 0)]
    for length, place in (a, b, acc):
        for lane in range(LANES):
            for e in range(ELEMENTS):
                row, col = place(lane, e) if lane < subgroup and e < length else (0, 0)
                words.append(row * SIDE + col)
    product = [
        float(sum((r * SIDE + k) * (k * SIDE + c) for k in range(n))) if r < m and c < n else 0.0
        for r in range(SIDE)
        for c in range(SIDE)
    ]
    return words + list(struct.unpack(f"<{len(product)}I", struct.pack(f"<{len(product)}f", *product)))


def nvidia(truncates: bool = False) -> list[int]:
    """16x16x16 in 32 lanes: quarters of 8 x 8, of which each lane has two neighbours in a row."""

    def place(lane, e):
        return lane // 4 + 8 * (e // 4), lane % 4 * 2 + e % 2 + 8 * (e // 2 % 2)

    return probe_words(16, 16, 32, (8, place), (8, transposed(place)), (8, place), truncates)


def lavapipe() -> list[int]:
    """8x8x8 in 8 lanes: a lane has a column of B and of the accumulator, and a row of A."""
    return probe_words(8, 8, 8, (8, lambda x, e: (x, e)), (8, lambda x, e: (e, x)), (8, lambda x, e: (e, x)))


def rdna3(subgroup: int) -> list[int]:
    """16x16x16: a lane has a whole row of A and column of B, in all lanes 16 apart alike.

    Of the accumulator it has every second (of 64 lanes: every fourth) row of a column.
    """
    apart = subgroup // 16
    return probe_words(
        16, 16, subgroup, (16, lambda x, e: (x % 16, e)), (16, lambda x, e: (e, x % 16)),
        (16 // apart, lambda x, e: (e * apart + x // 16, x % 16)),
    )  # fmt: skip


def rdna4(subgroup: int) -> list[int]:
    """16x16x16: runs of rows of a column of B and of the accumulator; A is the transposed. With 64 lanes the four
    groups of 16 begin at rows 0, 8, 4 and 12, which is no multiple of anything."""
    first = (0, 8) if subgroup == 32 else (0, 8, 4, 12)
    length = 256 // subgroup

    def place(lane, e):
        return first[lane // 16] + e, lane % 16

    return probe_words(16, 16, subgroup, (length, transposed(place)), (length, place), (length, place))
