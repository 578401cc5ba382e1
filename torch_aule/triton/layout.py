"""The elements of a block of values that each invocation of a workgroup holds. Pure.

All sizes are powers of two, so an element's index is a row of bits, and a layout says for each bit of an invocation's
number, and for each bit of a register's number, which bit of which coordinate it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

__all__ = ["SCALAR", "Bit", "Layout", "blocked", "log2", "picked_bits"]

Bit = tuple[int, int]  # an axis, and a bit of the coordinate along it


def log2(n: int) -> int:
    return n.bit_length() - 1


def _bits_of(shape: tuple[int, ...]) -> list[Bit]:
    """From the lowest bit of a row-major index to the highest."""
    return [(axis, bit) for axis in reversed(range(len(shape))) for bit in range(log2(shape[axis]))]


def picked_bits(source: str, moves: list[tuple[int, int]]) -> str:
    """GLSL that takes bits of `source` and puts them elsewhere.

    Parameters
    ----------
    source : str
        An int.
    moves : list of (int, int)
        From which bit, to which bit.
    """
    runs: list[list[int]] = []  # from, to, length
    for low, to in sorted(moves):
        if runs and low == runs[-1][0] + runs[-1][2] and to == runs[-1][1] + runs[-1][2]:
            runs[-1][2] += 1
        else:
            runs.append([low, to, 1])
    if source.isdigit():
        return str(sum((int(source) >> low & (1 << n) - 1) << to for low, to, n in runs))
    parts = []
    for low, to, n in runs:
        text = f"{source} >> {low}" if low else source
        text = f"({text} & {(1 << n) - 1})"
        parts.append(f"({text} << {to})" if to else text)
    return f"({' | '.join(parts)})" if len(parts) > 1 else "".join(parts)


@dataclass(frozen=True)
class Layout:
    """The places of a block's elements.

    Attributes
    ----------
    shape : tuple of int
        Of the block.
    threads : tuple of Bit or None
        By bit of an invocation's number, the lowest first; None where the bit says nothing, so that several
        invocations hold the same element.
    registers : tuple of Bit
        By bit of a register's number.
    """

    shape: tuple[int, ...]
    threads: tuple[Bit | None, ...]
    registers: tuple[Bit, ...]

    @property
    def count(self) -> int:
        """Registers of an invocation."""
        return 1 << len(self.registers)

    @cached_property
    def replica_mask(self) -> int:
        """The bits of an invocation's number that say nothing."""
        return sum(1 << i for i, bit in enumerate(self.threads) if bit is None)

    def thread_part(self, axis: int, source: str = "tid") -> str:
        """The coordinate along an axis of an invocation's register 0."""
        return picked_bits(source, [(i, b[1]) for i, b in enumerate(self.threads) if b and b[0] == axis])

    def register_part(self, axis: int, register: str) -> str:
        """The step that a register adds."""
        return picked_bits(register, [(i, b[1]) for i, b in enumerate(self.registers) if b[0] == axis])

    def run(self, axis: int) -> int:
        """The number of registers from 0 on that are neighbours along an axis."""
        length = 0
        while length < len(self.registers) and self.registers[length] == (axis, length):
            length += 1
        return 1 << length

    def _renamed(self, shape: tuple[int, ...], rename) -> Layout:
        """With bits renamed; those of which nothing is left are dropped, of threads they say nothing."""
        threads = tuple(rename(bit) if bit else None for bit in self.threads)
        registers = tuple(bit for bit in map(rename, self.registers) if bit)
        return Layout(shape, threads, registers)

    def without_axis(self, axis: int) -> Layout:
        """Of what is left when an axis is reduced, or is one element long and goes."""
        shape = self.shape[:axis] + self.shape[axis + 1 :]
        return self._renamed(shape, lambda b: None if b[0] == axis else (b[0] - (b[0] > axis), b[1]))

    def with_axis(self, axis: int) -> Layout:
        """With an axis of one element."""
        shape = (*self.shape[:axis], 1, *self.shape[axis:])
        return self._renamed(shape, lambda b: (b[0] + (b[0] >= axis), b[1]))

    def narrowed(self, shape: tuple[int, ...]) -> Layout:
        """Of what is broadcast to this."""
        return self._renamed(shape, lambda b: b if shape[b[0]] > 1 else None)

    def permuted(self, order: list[int]) -> Layout:
        """Axis i of the result is axis order[i] of this."""
        to = {old: new for new, old in enumerate(order)}
        return self._renamed(tuple(self.shape[old] for old in order), lambda b: (to[b[0]], b[1]))

    def reshaped(self, shape: tuple[int, ...]) -> Layout:
        """The same elements in their row-major order."""
        to = dict(zip(_bits_of(self.shape), _bits_of(shape)))
        return self._renamed(shape, lambda b: to[b])

    def joined(self) -> Layout:
        """With a last axis of two, in two registers."""
        axis = len(self.shape)
        return Layout((*self.shape, 2), self.threads, ((axis, 0), *self.registers))

    def flat(self, register: str, thread_parts: list[str]) -> str:
        """The row-major index of an element, with the threads' parts as given."""
        parts, stride = [], 1
        for axis in reversed(range(len(self.shape))):
            own = [text for text in (thread_parts[axis], self.register_part(axis, register)) if text not in ("", "0")]
            if own and self.shape[axis] > 1:
                text = " + ".join(f"({part})" for part in own)
                parts.append(f"({text}) * {stride}" if stride > 1 else text)
            stride *= self.shape[axis]
        return " + ".join(parts) or "0"

    def register_of(self, source: Layout, register: str) -> str:
        """The register of `source`, a layout with the same elements of each thread or fewer, of one of this."""
        places = {bit: i for i, bit in enumerate(self.registers)}
        return picked_bits(register, [(places[bit], i) for i, bit in enumerate(source.registers)])


SCALAR = Layout((), (), ())  # of what every invocation has alike


def blocked(shape: tuple[int, ...], threads: int, vector: int = 1, order: list[int] | None = None) -> Layout:
    """Neighbours along the fastest axis in a thread's registers, then threads along it, then along the next axis.

    Parameters
    ----------
    shape : tuple of int
        Of the block.
    threads : int
        Invocations of the workgroup.
    vector : int, default 1
        Neighbours that a thread holds, at most.
    order : list of int, optional
        Axes from the fastest on. Default: the last axis first.
    """
    order = list(reversed(range(len(shape)))) if order is None else order
    bits = [(axis, bit) for axis in order for bit in range(log2(shape[axis]))]
    vector = max(1, min(vector, shape[order[0]] if order else 1, math.prod(shape) // threads))
    low, rest = bits[: log2(vector)], bits[log2(vector) :]
    own: list[Bit | None] = list(rest[: log2(threads)])
    own += [None] * (log2(threads) - len(own))
    return Layout(shape, tuple(own), (*low, *rest[log2(threads) :]))
