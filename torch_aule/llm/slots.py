"""The recorded steps' state of each sequence: rows of tensors on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager

import torch

from torch_aule.llm.pages import SCRATCH
from torch_aule.llm.request import OPTIONS, PENALTIES, Request

__all__ = ["Slots", "mode_of"]


def mode_of(requests: Sequence[Request | None]) -> str:
    """The drawing of a step's tokens: "greedy", "sampled", or "penalties" where earlier tokens change the logits.

    Parameters
    ----------
    requests : sequence of Request or None
        Of the step.

    Returns
    -------
    str
        The simplest way that serves all of them.
    """
    there = [request for request in requests if request is not None]
    if all(request.is_greedy for request in there):
        return "greedy"
    return "penalties" if any(request.has_penalties for request in there) else "sampled"


class Slots:
    """Lengths, last tokens, pages and options of the sequences that run. Those in use are the first ones.

    Parameters
    ----------
    count : int
        Slots.
    pages : int
        Most pages of a sequence.
    vocabulary : int
        Tokens that there are.
    device : torch.device
        Of the tensors.
    """

    def __init__(self, count: int, pages: int, vocabulary: int, device: torch.device):
        def full(value, dtype, *more):
            return torch.full((count, *more), value, dtype=dtype, device=device)

        self.vocabulary, self.pages = vocabulary, pages
        self.lengths = full(0, torch.int32)  # rows in the cache: all tokens but the last
        self.tokens = full(0, torch.int64)  # the last token of each
        self.active = full(0, torch.int32)  # 1 where there is a sequence
        self.table = full(SCRATCH, torch.int32, pages)
        self.options = {
            name: full(value, torch.int32 if name == "top_k" else torch.float32) for name, value in OPTIONS.items()
        }
        self.counts: torch.Tensor | None = None  # int32 [slots, vocabulary]: made when a penalty needs it
        self.requests: list[Request | None] = [None] * count
        self.others: list[Callable[[], list[torch.Tensor]]] = []  # further rows, of models and strategies

    @property
    def running(self) -> int:
        """Slots in use."""
        return sum(request is not None for request in self.requests)

    def rows(self) -> list[torch.Tensor]:
        """All tensors that have a row for each slot."""
        counts = [] if self.counts is None else [self.counts]
        own = [self.lengths, self.tokens, self.active, self.table, *self.options.values(), *counts]
        return own + [tensor for other in self.others for tensor in other()]

    def put(self, request: Request) -> int:
        """Give a request the next slot, with its pages and options; it has no tokens there yet.

        Parameters
        ----------
        request : Request
            That has its pages.

        Returns
        -------
        int
            The slot.
        """
        slot = request.slot = self.running
        self.requests[slot] = request
        row = torch.full((self.pages,), SCRATCH, dtype=torch.int32)
        row[: len(request.pages)] = torch.tensor(request.pages, dtype=torch.int32)
        self.table[slot].copy_(row)
        for name, tensor in self.options.items():
            tensor[slot].fill_(getattr(request, name))
        if request.has_penalties:
            self.make_counts()
        if self.counts is not None:
            self.counts[slot].zero_()
            if request.repetition_penalty != 1.0:
                seen = torch.tensor(sorted(set(request.prompt)), device=self.table.device)
                self.counts[slot].index_fill_(0, seen, 1)
        return slot

    def make_counts(self) -> None:
        """Make the table that penalties read, unless it is there."""
        if self.counts is None:
            shape = (len(self.requests), self.vocabulary)
            self.counts = torch.zeros(shape, dtype=torch.int32, device=self.table.device)

    def start(self, slot: int, length: int, token: torch.Tensor) -> None:
        """The next step goes on after this token.

        Parameters
        ----------
        slot : int
            From :meth:`put`.
        length : int
            Tokens in the cache.
        token : torch.Tensor
            int64 ``[1]``.
        """
        self.lengths[slot].fill_(length)
        self.active[slot].fill_(1)
        self.tokens[slot : slot + 1].copy_(token)
        if self.counts is not None:
            self.counts[slot].index_add_(0, token, torch.ones_like(token, dtype=torch.int32))

    def remove(self, request: Request) -> None:
        """Take a request out of its slot, which the last one then gets.

        Parameters
        ----------
        request : Request
            That has a slot.
        """
        slot, request.slot = request.slot, None
        assert slot is not None
        last = self.running - 1
        other = self.requests[last]
        if last != slot and other is not None:
            for tensor in self.rows():
                tensor[slot].copy_(tensor[last])
            self.requests[slot], other.slot = other, slot
        self.requests[last] = None
        self.active[last].zero_()
        self.lengths[last].zero_()
        self.table[last].fill_(SCRATCH)

    def draw(self, logits: torch.Tensor, first: int, last: int, each: int, mode: str) -> torch.Tensor:
        """Tokens by the options of some slots.

        Parameters
        ----------
        logits : torch.Tensor
            ``[(last - first) * each, vocabulary]``.
        first, last : int
            The slots from `first` to before `last`.
        each : int
            Rows of a slot.
        mode : str
            From :func:`mode_of`.

        Returns
        -------
        torch.Tensor
            int64 ``[(last - first) * each]``.
        """
        if mode == "greedy":
            return logits.argmax(-1)

        def rows(name):
            option = self.options[name][first:last]
            return option if each == 1 else option.repeat_interleave(each)

        limits = [rows(name) for name in ("temperature", "top_k", "top_p", "min_p")]
        penalties: list = [None] * 4
        if mode == "penalties":
            assert self.counts is not None
            penalties = [self.counts[first:last], *(rows(name) for name in PENALTIES)]
        return torch.ops.aule.sample(logits, *limits, *penalties)[0]

    @contextmanager
    def nobody(self):
        """Inside, all slots are empty and write to the scratch page; afterwards everything is as before."""
        tensors = self.rows()
        before = [tensor.clone() for tensor in tensors]
        try:
            self.active.zero_()
            self.lengths.zero_()
            self.table.fill_(SCRATCH)
            yield
        finally:
            for tensor, old in zip(tensors, before):
                tensor.copy_(old)
