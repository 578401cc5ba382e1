"""Pages of a key-value cache: a pool of blocks that sequences share, and keys and values moved into them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["BlockPool", "copy_kv_to_paged"]


def slots_of(rows: torch.Tensor, cache: torch.Tensor, block_table: torch.Tensor | None) -> torch.Tensor:
    """Places of the rows of each sequence in a cache, for ``aule::reshape_and_cache``.

    Parameters
    ----------
    rows : torch.Tensor
        int64 ``[batch, n]``, none negative.
    cache : torch.Tensor
        ``[pages, page_size, ...]``.
    block_table : torch.Tensor or None
        Integers ``[batch, most pages of a sequence]``; without it sequence ``b`` has page ``b``.

    Returns
    -------
    torch.Tensor
        int64 ``[batch, n]``; rows that the sequence has no place for are past the last slot, which the kernel reports.
    """
    page_size = cache.size(1)
    column = torch.div(rows, max(page_size, 1), rounding_mode="floor")
    if block_table is None:
        owner = torch.arange(rows.size(0), device=rows.device)[:, None]
        columns = 1
    else:
        columns = block_table.size(1)
        table = block_table.long() if columns else block_table.new_zeros((rows.size(0), 1), dtype=torch.int64)
        owner = table.gather(1, column.clamp(max=max(columns - 1, 0)))
    lost = (column >= columns) | (owner < 0)
    return torch.where(lost, cache.size(0) * page_size, owner * page_size + rows % max(page_size, 1))


def copy_kv_to_paged(
    k: torch.Tensor,
    v: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
) -> None:
    """Copy keys and values of whole sequences into the pages of a cache, in one kernel.

    Parameters
    ----------
    k, v : torch.Tensor
        ``[batch, n, kv_heads, head_dim]``; float32, float16 or bfloat16.
    key_cache, value_cache : torch.Tensor
        ``[pages, page_size, kv_heads, head_dim]``, written in place.
    block_table : torch.Tensor
        Integers ``[batch, most pages of a sequence]``: row ``i`` of a sequence is row ``i % page_size`` of page
        ``block_table[b, i // page_size]``.
    lengths : torch.Tensor, optional
        Integers ``[batch]``: rows of each sequence that are copied; by default all `n`.
    start : torch.Tensor, optional
        Integers ``[batch]``: the row of each sequence where they begin; 0 by default.

    Raises
    ------
    ValueError, RuntimeError
        For shapes, dtypes or devices that do not fit.
    IndexError
        At the next synchronisation: for a page that is none.

    Examples
    --------
    >>> torch_aule.attention.pages.copy_kv_to_paged(k, v, key_cache, value_cache, table, lengths)
    """
    op = "copy_kv_to_paged"
    if k.dim() != 4 or v.dim() != 4 or k.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"{op}: expected k and v of shape [batch, n, kv_heads, head_dim], but got {list(k.shape)} and "
            f"{list(v.shape)}"
        )
    batch, n = k.shape[:2]
    if block_table.dim() != 2 or block_table.size(0) != batch:
        raise ValueError(
            f"{op}: expected block_table of shape [{batch}, pages of a sequence], but got {list(block_table.shape)}"
        )
    for name, t in (("lengths", lengths), ("start", start)):
        if t is not None and list(t.shape) != [batch]:
            raise ValueError(f"{op}: expected {name} of shape [{batch}], but got {list(t.shape)}")
    if key_cache.dim() != 4:
        raise ValueError(
            f"{op}: expected key_cache of shape [pages, page_size, kv_heads, head_dim], but got {list(key_cache.shape)}"
        )
    if n == 0 or batch == 0:
        return
    order = torch.arange(n, device=k.device).expand(batch, n)
    slots = slots_of(order if start is None else order + start.long()[:, None], key_cache, block_table)
    if lengths is not None:
        slots = torch.where(order < lengths.long()[:, None], slots, -1)
    torch.ops.aule.reshape_and_cache(k.flatten(0, 1), v.flatten(0, 1), key_cache, value_cache, slots.flatten())


class BlockPool:
    """A key-value cache in blocks (pages), which sequences take, share and give back.

    The host keeps the books; keys and values stay on the device. Forked sequences share their blocks until one of them
    writes into a block, which it then gets as a copy of its own.

    Parameters
    ----------
    num_blocks : int
        Blocks of the pool.
    block_size : int
        Rows (tokens) of a block.
    num_kv_heads : int
        Key and value heads.
    head_dim : int
        Head size of the keys.
    v_head_dim : int, optional
        Head size of the values; that of the keys by default.
    dtype : torch.dtype, default torch.float16
        float32, float16 or bfloat16.
    device : torch.device or str, default "aule"
        Of the caches.

    Raises
    ------
    ValueError
        For a size below 1.

    References
    ----------
    W. Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
    arXiv:2309.06180.

    Examples
    --------
    >>> pool = torch_aule.attention.pages.BlockPool(64, 16, num_kv_heads=8, head_dim=64)
    >>> a = pool.allocate()
    >>> pool.append([a], k, v)  # k, v: [tokens, 8, 64]
    >>> b = pool.fork(a)
    >>> table, lengths = pool.tables([a, b])
    >>> out = torch_aule.paged_attention(q, pool.key_cache, pool.value_cache, table, lengths)
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        v_head_dim: int | None = None,
        dtype: torch.dtype = torch.float16,
        device="aule",
    ):
        v_head_dim = head_dim if v_head_dim is None else v_head_dim
        for name, value in (
            ("num_blocks", num_blocks),
            ("block_size", block_size),
            ("num_kv_heads", num_kv_heads),
            ("head_dim", head_dim),
            ("v_head_dim", v_head_dim),
        ):
            if value < 1:
                raise ValueError(f"BlockPool: expected {name} of at least 1, but got {value}")
        shape = (num_blocks, block_size, num_kv_heads)
        self.key_cache = torch.zeros((*shape, head_dim), dtype=dtype, device=device)
        self.value_cache = torch.zeros((*shape, v_head_dim), dtype=dtype, device=device)
        self.block_size = block_size
        self._free = list(range(num_blocks))[::-1]
        self._users = [0] * num_blocks  # sequences that have the block
        self._blocks: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._next = 0

    @property
    def free_blocks(self) -> int:
        """Blocks that no sequence has."""
        return len(self._free)

    def _of(self, sequence: int) -> list[int]:
        if sequence not in self._blocks:
            raise KeyError(f"BlockPool: there is no sequence {sequence!r}")
        return self._blocks[sequence]

    def length(self, sequence: int) -> int:
        """The number of tokens of a sequence.

        Parameters
        ----------
        sequence : int
            As :meth:`allocate` or :meth:`fork` gave it.

        Returns
        -------
        int
            Tokens.

        Raises
        ------
        KeyError
            For a sequence that is none.
        """
        self._of(sequence)
        return self._lengths[sequence]

    def allocate(self) -> int:
        """Begin a sequence without tokens; it takes blocks as it grows.

        Returns
        -------
        int
            The sequence.
        """
        sequence, self._next = self._next, self._next + 1
        self._blocks[sequence], self._lengths[sequence] = [], 0
        return sequence

    def fork(self, sequence: int) -> int:
        """Begin a sequence with the tokens of another one, whose blocks it shares.

        Parameters
        ----------
        sequence : int
            The other one.

        Returns
        -------
        int
            The new sequence.

        Raises
        ------
        KeyError
            For a sequence that is none.
        """
        blocks = self._of(sequence)
        child = self.allocate()
        self._blocks[child], self._lengths[child] = list(blocks), self._lengths[sequence]
        for block in blocks:
            self._users[block] += 1
        return child

    def free(self, sequence: int) -> None:
        """End a sequence; blocks that no other one has are free again.

        Parameters
        ----------
        sequence : int
            As :meth:`allocate` or :meth:`fork` gave it.

        Raises
        ------
        KeyError
            For a sequence that is none.
        """
        for block in reversed(self._of(sequence)):
            self._release(block)
        del self._blocks[sequence], self._lengths[sequence]

    def _release(self, block: int) -> None:
        self._users[block] -= 1
        if self._users[block] == 0:
            self._free.append(block)

    def _take(self) -> int:
        block = self._free.pop()
        self._users[block] = 1
        return block

    def _wanted(self, sequence: int, tokens: int, holders: list[int]) -> tuple[bool, int]:
        """Whether the last block must be copied before that number of tokens is added, and how many blocks are new."""
        blocks, length = self._blocks[sequence], self._lengths[sequence]
        partial = length % self.block_size != 0
        copies = tokens > 0 and partial and holders[blocks[-1]] > 1
        return copies, -(-(length + tokens) // self.block_size) - len(blocks)

    def extend(self, sequences: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
        """Make room for new tokens, which copies a last block that is shared.

        Parameters
        ----------
        sequences : sequence of int
            Different ones.
        tokens : sequence of int
            New tokens of each.

        Returns
        -------
        torch.Tensor
            int64 ``[sum of tokens]`` on the device: the slot of each new token, those of the first sequence first, for
            ``torch.ops.aule.reshape_and_cache``.

        Raises
        ------
        KeyError
            For a sequence that is none.
        ValueError
            For a sequence twice, or counts that do not fit.
        RuntimeError
            If there are not enough free blocks; nothing has changed then.
        """
        if len(sequences) != len(tokens) or len(set(sequences)) != len(sequences):
            raise ValueError(
                f"BlockPool.extend: expected different sequences and a count for each, but got {list(sequences)} and "
                f"{list(tokens)}"
            )
        if any(count < 0 for count in tokens):
            raise ValueError(f"BlockPool.extend: expected tokens of at least 0, but got {list(tokens)}")
        holders, plans = list(self._users), []
        for sequence, count in zip(sequences, tokens):
            blocks = self._of(sequence)
            copies, fresh = self._wanted(sequence, count, holders)
            if copies:
                holders[blocks[-1]] -= 1  # the last of those who share it keeps it
            plans.append((copies, fresh))
        needed = sum(fresh + copies for copies, fresh in plans)
        if needed > len(self._free):
            raise RuntimeError(
                f"BlockPool: {needed} blocks are needed, but {len(self._free)} of {len(self._users)} are free"
            )
        slots, sources, targets = [], [], []
        for sequence, count, (copies, fresh) in zip(sequences, tokens, plans):
            blocks, length = self._blocks[sequence], self._lengths[sequence]
            if copies:
                sources.append(blocks[-1])
                self._release(blocks[-1])
                blocks[-1] = self._take()
                targets.append(blocks[-1])
            blocks.extend(self._take() for _ in range(fresh))
            size = self.block_size
            slots += [blocks[i // size] * size + i % size for i in range(length, length + count)]
            self._lengths[sequence] = length + count
        device = self.key_cache.device
        if sources:
            index = torch.tensor([sources, targets], device=device)
            for cache in (self.key_cache, self.value_cache):
                cache.index_copy_(0, index[1], cache.index_select(0, index[0]))
        return torch.tensor(slots, dtype=torch.int64, device=device)

    def append(self, sequences: Sequence[int], k: torch.Tensor, v: torch.Tensor, tokens=None) -> None:
        """Write the keys and values of new tokens behind those of the sequences.

        Parameters
        ----------
        sequences : sequence of int
            Different ones.
        k, v : torch.Tensor
            ``[tokens, kv_heads, head_dim]`` in the dtype of the pool, those of the first sequence first.
        tokens : sequence of int, optional
            How many of them each sequence has; equal shares by default.

        Raises
        ------
        KeyError, ValueError, RuntimeError
            As :meth:`extend`, and for tensors that do not fit; nothing has changed then.
        """
        expected = [(k.size(0) if k.dim() else -1, *cache.shape[2:]) for cache in (self.key_cache, self.value_cache)]
        for name, t, shape in (("k", k, expected[0]), ("v", v, expected[1])):
            if tuple(t.shape) != shape or t.dtype != self.key_cache.dtype or t.device != self.key_cache.device:
                raise ValueError(
                    f"BlockPool.append: expected {name} of shape [tokens, {shape[1]}, {shape[2]}], "
                    f"{self.key_cache.dtype} on {self.key_cache.device}, but got {list(t.shape)}, {t.dtype} on "
                    f"{t.device}"
                )
        if tokens is None:
            tokens = [k.size(0) // max(len(sequences), 1)] * len(sequences)
        if sum(tokens) != k.size(0):
            raise ValueError(
                f"BlockPool.append: expected k of {sum(tokens)} tokens, the sum of {list(tokens)}, but got {k.size(0)}"
            )
        slots = self.extend(sequences, tokens)
        torch.ops.aule.reshape_and_cache(k, v, self.key_cache, self.value_cache, slots)

    def tables(self, sequences: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Arguments for attention over the sequences.

        Parameters
        ----------
        sequences : sequence of int
            In the order of the batch.

        Returns
        -------
        block_table : torch.Tensor
            int32 ``[batch, most blocks of a sequence]``, on the device.
        lengths : torch.Tensor
            int32 ``[batch]``: tokens of each sequence.

        Raises
        ------
        KeyError
            For a sequence that is none.
        """
        lists = [self._of(sequence) for sequence in sequences]
        most = max((len(blocks) for blocks in lists), default=0)
        table = torch.zeros((len(lists), max(most, 1)), dtype=torch.int32)
        for row, blocks in zip(table, lists):
            row[: len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
        lengths = torch.tensor([self._lengths[sequence] for sequence in sequences], dtype=torch.int32)
        return table.to(self.key_cache.device), lengths.to(self.key_cache.device)
