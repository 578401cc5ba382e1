"""The shares of invocations in a generated kernel: a pure function of the device's facts and of the kernel's."""

from __future__ import annotations

from dataclasses import dataclass

from torch_aule.compile.codegen.facts import DeviceFacts

__all__ = ["Work", "pointwise_work", "reduction_work"]


@dataclass(frozen=True)
class Work:
    """The invocations' shares of the work.

    Attributes
    ----------
    local : int
        Invocations of a workgroup.
    vec : int
        Elements of a vector access along the element axis; 1: none.
    threads : int
        Invocations that share a row (reductions).
    items : int
        Vectors of a row that an invocation holds in registers; 0: it loops over the row.
    column : bool
        Neighbouring invocations take neighbouring rows, for reductions over an outer dimension.
    combine : str
        How the invocations of a row combine: none, subgroup (a row is part of one), group (a workgroup is a row: in
        subgroups, then shared memory), or shared (a tree in shared memory).
    """

    local: int
    vec: int = 1
    threads: int = 1
    items: int = 0
    column: bool = False
    combine: str = "none"

    @property
    def rows(self) -> int:
        """Rows of a workgroup."""
        return self.local // self.threads

    @property
    def clamps_rows(self) -> bool:
        """True if invocations of rows past the end stay, because others of their workgroup need them at barriers."""
        return self.threads > 1 and self.rows > 1


_VECTORS = 4  # of a row in registers of an invocation


def _power_of_two(x: int) -> int:
    return 1 << max(0, (x - 1).bit_length())


def pointwise_work(device: DeviceFacts, vec: int) -> Work:
    """An invocation computes one vector, or one element."""
    local = 64 if device.software else 256
    return Work(local=min(local, device.max_workgroup_invocations), vec=vec)


def reduction_work(
    device: DeviceFacts,
    rows: int,
    n: int,
    *,
    known: bool,
    keeps: bool,
    vec: int,
    column: bool,
    loops: int,
    max_items: int = 8,
    operands: int = 1,
) -> Work:
    """Rows of `n` elements, a hint unless `known`; `loops` times over a row if it is not kept in registers.

    `keeps` asks for registers, `max_items` bounds them: vectors of a row that an invocation may keep. `operands` are
    rows that are loaded.
    """
    vectors = -(-n // vec)
    if column:
        return _column_work(device, rows, n, known, loops)
    if device.software:
        # A barrier costs a software device more than it saves. Its loops may end too early, in sum over the kernel.
        limit = device.max_loop_iterations // (loops + 1) if device.max_loop_iterations else 1 << 30
        threads = 1
        if device.max_loop_iterations and not known:
            threads = 64
        while -(-vectors // threads) > min(limit, 1 << 14) and threads < 128:
            threads *= 2
        local = 64 if threads == 1 else threads
        return Work(local=local, vec=vec, threads=threads, combine="none" if threads == 1 else "shared")
    subgroup = device.subgroup_size
    # Two rows of 32 elements leave registers for fewer invocations at a time: 58.9 us for a layer norm, 55.0 with 16.
    shared = -(-vectors // (_VECTORS // 2 if vec > 4 and operands > 1 else _VECTORS))  # invocations for a row
    if vectors <= subgroup * 4 and device.shuffles:
        # Part of a subgroup for each row: no barrier.
        threads = min(subgroup, _power_of_two(shared) if rows >= 4096 else _power_of_two(vectors))
        items = -(-vectors // threads)
        local = 256 if 256 <= device.max_workgroup_invocations else subgroup
        combine = "none" if threads == 1 else "subgroup"
        return Work(local, vec, threads, items if keeps and items <= max_items else 0, combine=combine)
    # Rows too few to fill the device are spread over more invocations each.
    most = 256
    while most < 1024 and (rows * most < device.multiprocessors * 1024 or keeps and vectors > most * max_items):
        most *= 2
    wanted = _power_of_two(vectors if rows < device.multiprocessors else shared)
    threads = min(wanted, most, device.max_workgroup_invocations)
    threads = max(threads, 64)
    items = -(-vectors // threads)
    combine = "group" if device.shuffles else "shared"
    return Work(threads, vec, threads, items if keeps and items <= max_items else 0, combine=combine)


def _column_work(device: DeviceFacts, rows: int, n: int, known: bool, loops: int) -> Work:
    local = min(256, device.max_workgroup_invocations)
    if device.software:
        limit = device.max_loop_iterations // (loops + 1)
        if not device.max_loop_iterations or (known and n <= limit):
            return Work(local=64, column=True)
        return Work(local=128, threads=64, column=True, combine="shared")
    # Invocations enough to fill the device: the rest of a row is its own loop.
    threads = 1
    while threads < 32 and rows * threads < device.multiprocessors * 1024 and threads * 8 <= n:
        threads *= 2
    return Work(local, threads=threads, column=True, combine="none" if threads == 1 else "shared")
