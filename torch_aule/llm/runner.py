"""Decoding of several sequences at once, by steps that are recorded once and replayed.

A step reads the last token of every sequence from the device's memory, runs the model over it, draws the next token and
writes it back, so that a replay needs nothing of the host. The host reads the tokens of one step while the next one
runs. Sequences join and leave between steps: their pages, lengths and options are rows of tensors on the device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from torch_aule.llm import recording
from torch_aule.llm.cache import Rows, UnsupportedModelError, layer_shapes, row_bytes
from torch_aule.llm.engine import Engine
from torch_aule.llm.pages import PageBooks
from torch_aule.llm.recording import BUCKETS, Recorder
from torch_aule.llm.request import Request, Snapshot
from torch_aule.llm.slots import Slots, mode_of
from torch_aule.llm.speculative import Strategy

__all__ = ["Runner"]


@dataclass
class _Pending:
    """Tokens of a step that the host has not read yet."""

    host: torch.Tensor
    event: torch.Event
    requests: list[Request | None]


class Runner:
    """Runs a model over sequences that join and leave at any time.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal language model on the device, in any dtype, or with quantized weights; it is not changed.
    max_batch : int, default 8
        How many sequences run at once, at most 32; further ones wait.
    max_len : int, optional
        Tokens of a sequence, prompt and answer; by default what the model was made for, but no more than 4,096.
    page_size : int, default 16
        Tokens of a page of the key-value cache.
    tokens : int, optional
        Tokens that the cache has room for; by default `max_batch` sequences of `max_len`, or what 0.8 of the free
        memory holds.
    strategy : Strategy, optional
        Where guesses at next tokens come from (:mod:`torch_aule.llm.speculative`); none by default.
    graphs : bool, default True
        Record each step once for each size of batch (1, 2, 4, 8, 16, 32), and replay it.
    fuse : bool, default True
        Run parts of layers as one kernel (:class:`torch_aule.llm.optimize.Fusions`).
    record_prompts : bool, optional
        Record the reading of prompts too, for some lengths that others are padded to; by default on GPUs. Models with
        recurrent layers read prompts without.
    kv_cache_dtype : str, optional
        "int8": keys and values are kept in 8 bits with a scale for each 32 of them; by default as they are computed.

    Raises
    ------
    UnsupportedModelError
        For a model whose layers are not understood, or recurrent layers with a strategy that guesses.
    ValueError
        For sizes that do not fit together, or a `kv_cache_dtype` that does not fit the model.
    MemoryError
        If there is no room for the cache of one sequence.

    Examples
    --------
    >>> runner = torch_aule.llm.Runner(model)
    >>> request = runner.add(tokenizer("The sky is").input_ids, max_new_tokens=20)
    >>> while not request.finished:
    ...     runner.step()
    >>> print(tokenizer.decode(request.tokens))
    """

    def __init__(
        self,
        model,
        *,
        max_batch: int = 8,
        max_len: int | None = None,
        page_size: int = 16,
        tokens: int | None = None,
        strategy: Strategy | None = None,
        graphs: bool = True,
        fuse: bool = True,
        record_prompts: bool | None = None,
        kv_cache_dtype: str | None = None,
    ):
        if not 1 <= max_batch <= BUCKETS[-1]:
            raise ValueError(f"Runner: expected max_batch between 1 and {BUCKETS[-1]}, but got {max_batch}")
        if max_len is None:
            max_len = min(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 4096, 4096)
        if max_len < 2 or page_size < 16:
            raise ValueError(
                f"Runner: expected max_len of at least 2 and page_size of at least 16, but got {max_len} and "
                f"{page_size}"
            )
        self.model = model.eval()
        self.device = model.device
        self.strategy = Strategy() if strategy is None else strategy
        self.max_batch, self.max_len, self.page_size = max_batch, max_len, page_size
        self._reserve = self.strategy.guesses + 2  # rows that steps write behind a sequence's end
        self.kv_cache_dtype, shapes = kv_cache_dtype, layer_shapes(model)
        pages = self._pages_that_fit(shapes, tokens)
        self.books = PageBooks(pages + 1, page_size)
        self.engine = Engine(model, pages + 1, page_size, max_batch, max_len, shapes, kv_cache_dtype)
        if self.engine.is_recurrent and self.strategy.guesses:
            raise UnsupportedModelError(
                f"Runner: {type(model).__name__} has recurrent layers, whose states cannot be taken back; "
                f"{type(self.strategy).__name__} needs that"
            )
        self._per_sequence = -(-(max_len + self._reserve) // page_size)
        self._fuse, graphs = fuse, graphs and self.device.type == "aule"
        if record_prompts is None:  # a software device takes longer for what is padded than for the launches
            record_prompts = graphs and torch.aule.get_device_properties(self.device).kind != "cpu"
        self._record_prompts = graphs and record_prompts
        self._complete(self.engine)
        self.slots = Slots(max_batch, self._per_sequence, model.config.get_text_config().vocab_size, self.device)
        guesses = self.strategy.guesses
        self._drawn = torch.zeros((max_batch, guesses + 2), dtype=torch.int64, device=self.device)
        self.strategy.prepare(self)
        self.slots.others += [self.engine.rows, self.strategy.rows, lambda: [self._drawn]]
        self._waiting: deque[Request] = deque()
        self._pending: deque[_Pending] = deque()
        self._recorder = Recorder(self._run, self.slots, graphs, self._drawn)

    def _complete(self, engine: Engine) -> None:
        engine.probe()
        records = self._record_prompts and not engine.is_recurrent
        if self._fuse:
            engine.fuse(self.max_len + self._reserve + (recording.PROMPT_SIZES[-1] if records else 0))
        if records:
            engine.record_prompts(self._per_sequence, self.page_size)

    def _pages_that_fit(self, shapes: list, tokens: int | None) -> int:
        row = row_bytes(shapes, self.kv_cache_dtype)
        one = -(-(self.max_len + self._reserve) // self.page_size)
        if tokens is not None:
            return max(-(-tokens // self.page_size), 1)
        wanted = one * self.max_batch
        if row == 0 or self.device.type != "aule":
            return wanted
        free = int(0.8 * torch.aule.mem_get_info(self.device)[0])
        pages = min(wanted, free // (row * self.page_size))
        if pages < one:
            raise MemoryError(
                f"Runner: the cache of one sequence of {self.max_len} tokens takes "
                f"{one * self.page_size * row / 2**20:.0f} MiB, but {free / 2**20:.0f} MiB are free for it; a smaller "
                f"max_len would fit: {max(free // row - self._reserve, 0)}"
            )
        return pages

    def another_engine(self, model) -> Engine:
        """A second model whose caches have the same pages, for strategies.

        Parameters
        ----------
        model : transformers.PreTrainedModel
            On the same device; its layers must be attention.

        Returns
        -------
        Engine
            With caches of its own.

        Raises
        ------
        UnsupportedModelError
            For recurrent layers.
        """
        sizes = (self.books.total + 1, self.page_size, self.max_batch, self.max_len)
        engine = Engine(model.eval(), *sizes, kv_cache_dtype=self.kv_cache_dtype)
        if engine.is_recurrent:
            raise UnsupportedModelError(
                f"Runner: {type(model).__name__} has recurrent layers, whose states cannot be taken back"
            )
        self._complete(engine)
        return engine

    # Sequences that join and leave

    def add(self, prompt: Sequence[int] | Request, **options) -> Request:
        """Begin a sequence; it waits while there is no room.

        Parameters
        ----------
        prompt : sequence of int, or Request
            Tokens, or a request that is ready.
        **options
            As :class:`Request` takes them.

        Returns
        -------
        Request
            Its `tokens` grow with each :meth:`step`.

        Raises
        ------
        ValueError
            For a prompt that is longer than `max_len` allows, or penalties with a strategy that guesses.
        MemoryError
            For a sequence that the whole cache has no room for.
        """
        request = prompt if isinstance(prompt, Request) else Request([int(t) for t in prompt], **options)
        if len(request.prompt) >= self.max_len:
            raise ValueError(
                f"Runner: the prompt has {len(request.prompt)} tokens, but max_len is {self.max_len}, one of which "
                "must be left for the answer"
            )
        if request.has_penalties and self.strategy.guesses:
            raise ValueError("Runner: penalties change with each token; they need a runner without guesses")
        needed = self._pages_needed(request)
        if needed > self.books.total:
            raise MemoryError(f"Runner: the sequence needs {needed} pages, but the cache has {self.books.total}")
        self._waiting.append(request)
        return request

    def _pages_needed(self, request: Request) -> int:
        most = min(len(request.prompt) + request.max_new_tokens, self.max_len)
        return self.books.pages_of(most + self._reserve)

    def cancel(self, request: Request) -> None:
        """End a sequence now. Its pages are free again at once.

        Parameters
        ----------
        request : Request
            From :meth:`add`; one that has ended is left alone.
        """
        if request.finished is None:
            self._end(request, "cancelled")

    def _end(self, request: Request, why: str) -> None:
        request.finished = why
        if request.slot is None:
            if request in self._waiting:
                self._waiting.remove(request)
            return
        if not self.engine.is_recurrent:
            self.books.keep(request.pages, request.prompt + request.tokens[:-1])  # the last one is not in the cache
        self.books.release(request.pages)
        request.pages = []
        self.slots.remove(request)

    @property
    def running(self) -> int:
        """The number of sequences that have a slot."""
        return self.slots.running

    @property
    def waiting(self) -> int:
        """The number of sequences that wait for a slot."""
        return len(self._waiting)

    def _admit(self) -> None:
        while self._waiting and self.running < self.max_batch:
            request = self._waiting[0]
            needed = self._pages_needed(request)
            found = [] if self.engine.is_recurrent else self.books.find(request.prompt)
            try:
                request.pages = self.books.take(needed, found)
            except MemoryError:
                return  # until another one ends
            self._waiting.popleft()
            request.shared = len(found) * self.page_size
            self._begin(request)

    def _begin(self, request: Request) -> None:
        prompt, slot = request.prompt, self.slots.put(request)
        logits = self.engine.read(self.slots.table, slot, prompt, request.shared)
        if not self.engine.is_recurrent:
            self.books.keep(request.pages, prompt)
        token = self.slots.draw(logits, slot, slot + 1, 1, mode_of([request]))
        self.slots.start(slot, len(prompt), token)
        self.strategy.begin(slot, prompt, request.shared)
        self._drawn[slot, 0].fill_(1)
        self._drawn[slot, 1:2].copy_(token)
        host = torch.empty(self._drawn.shape, dtype=torch.int64).pin_memory()
        self._expect(host.copy_(self._drawn, non_blocking=True), [None] * slot + [request])

    # Steps

    def _run(self, batch: int, mode: str) -> None:
        """One step of the first `batch` slots, all of it on the device."""
        slots = self.slots
        lengths, active = slots.lengths[:batch], slots.active[:batch]
        guesses = self.strategy.guess(batch)
        ids = slots.tokens[:batch, None]
        if guesses is not None:
            ids = torch.cat((ids, guesses), 1)
        each = ids.size(1)
        logits = self.engine.forward(ids, Rows(lengths, slots.table[:batch], each), batch)
        accepted, tokens = self._drawn[:batch], slots.tokens[:batch]
        if mode == "greedy":
            torch.ops.aule.accept_likeliest(logits, guesses, active, accepted, tokens, lengths)
            drawn = accepted[:, 1 : 1 + each]
        else:
            drawn = slots.draw(logits.flatten(0, 1), 0, batch, each, mode).view(batch, each)
            torch.ops.aule.accept_tokens(drawn, guesses, active, accepted, tokens, lengths)
        if mode == "penalties":
            assert slots.counts is not None
            slots.counts[:batch].scatter_add_(1, tokens[:, None], active[:, None])
        if guesses is not None:
            self.strategy.learn(batch, drawn, accepted[:, 0].clamp(min=1))

    def record(self, modes: Sequence[str] = ("greedy",)) -> None:
        """Record the steps of all sizes of batch now, rather than when they are first needed.

        Parameters
        ----------
        modes : sequence of str, default ("greedy",)
            "greedy", "sampled" or "penalties".
        """
        if "penalties" in modes:
            self.slots.make_counts()
        for batch in self._recorder.buckets:
            for mode in modes:
                self._recorder.record(batch, mode)

    def _expect(self, host: torch.Tensor, requests: list[Request | None]) -> None:
        event = torch.Event(self.device)
        event.record()
        self._pending.append(_Pending(host, event, requests))

    def _collect(self, pending: _Pending) -> list[tuple[Request, list[int]]]:
        pending.event.synchronize()
        found = []
        for request, (count, *tokens) in zip(pending.requests, pending.host.tolist()):
            if request is None or request.finished is not None:
                continue
            new = []
            for token in tokens[:count]:
                new.append(token)
                request.tokens.append(token)
                if token in request.stop_tokens:
                    self._end(request, "stop")
                elif len(request.tokens) >= request.max_new_tokens:
                    self._end(request, "length")
                elif len(request.prompt) + len(request.tokens) >= self.max_len:
                    self._end(request, "length")
                if request.finished:
                    break
            found.append((request, new))
        return found

    def step(self) -> list[tuple[Request, list[int]]]:
        """Submit a step of all sequences, and read the tokens of the one before.

        Returns
        -------
        list of (Request, list of int)
            New tokens. A sequence's first ones come one step after it has got a slot.
        """
        self._admit()
        running = self.running
        if running:
            requests = self.slots.requests[:running]
            self._expect(self._recorder.step(self._recorder.bucket(running), mode_of(requests)), requests)
        found = []
        while len(self._pending) > (1 if running else 0):  # at most one step: the next one writes over that before it
            found += self._collect(self._pending.popleft())
        if not self.running:  # nobody wants what is still under way
            while self._pending:
                found += self._collect(self._pending.popleft())
        return found

    @property
    def is_idle(self) -> bool:
        """Whether all sequences have ended."""
        return not self._waiting and not self.running

    def generate(self, prompts: Sequence[Sequence[int]], **options) -> list[list[int]]:
        """The answers to several prompts.

        Parameters
        ----------
        prompts : sequence of sequence of int
            Tokens.
        **options
            As :class:`Request` takes them.

        Returns
        -------
        list of list of int
            Tokens of each answer.
        """
        requests = [self.add(prompt, **options) for prompt in prompts]
        while any(request.finished is None for request in requests):
            self.step()
        return [request.tokens for request in requests]

    def stream(self, prompt: Sequence[int], **options) -> Iterator[int]:
        """The tokens of one answer as they come. Leaving the loop cancels it.

        Parameters
        ----------
        prompt : sequence of int
            Tokens.
        **options
            As :class:`Request` takes them.

        Yields
        ------
        int
            The next token.
        """
        request = self.add(prompt, **options)
        seen = 0
        try:
            while request.finished is None or seen < len(request.tokens):
                if seen == len(request.tokens):
                    self.step()
                for token in request.tokens[seen:]:
                    seen += 1
                    yield token
        finally:
            self.cancel(request)

    # Caches that are kept

    def snapshot_kv_cache(self, request: Request) -> Snapshot:
        """A copy of the keys and values of a sequence's full pages, on the device.

        Parameters
        ----------
        request : Request
            One that has a slot.

        Returns
        -------
        Snapshot
            For :meth:`restore_kv_cache`, of this runner or of another one with the same model, page size and
            `kv_cache_dtype`.

        Raises
        ------
        ValueError
            For a request without a slot, or a model with recurrent layers.
        """
        if self.engine.is_recurrent:
            raise ValueError("Runner.snapshot_kv_cache: the states of recurrent layers have no pages")
        if request.slot is None:
            raise ValueError("Runner.snapshot_kv_cache: the request has no slot; it waits, or has ended")
        known = (request.prompt + request.tokens)[: len(request.prompt) + max(len(request.tokens) - 1, 0)]
        full = len(known) // self.page_size
        index = torch.tensor(request.pages[:full], dtype=torch.int64, device=self.device)
        layers = [tuple(t[index] for t in layer.tensors) for layer in self.engine.paged_layers]
        return Snapshot(known[: full * self.page_size], layers)

    def restore_kv_cache(self, snapshot: Snapshot) -> int:
        """Put a snapshot into the cache, so that prompts that begin with its tokens do not compute them again.

        Parameters
        ----------
        snapshot : Snapshot
            From :meth:`snapshot_kv_cache`.

        Returns
        -------
        int
            Tokens that are in the cache now.

        Raises
        ------
        MemoryError
            If there are not enough pages.
        ValueError
            For a snapshot of another model, page size or `kv_cache_dtype`.
        """
        layers = [layer.tensors for layer in self.engine.paged_layers]
        here, there = ([[(t.shape[1:], t.dtype) for t in layer] for layer in x] for x in (layers, snapshot.layers))
        if here != there:
            raise ValueError(
                "Runner.restore_kv_cache: the snapshot is of another model, or has pages of another size or dtype"
            )
        pages = self.books.take(len(snapshot.tokens) // self.page_size)
        index = torch.tensor(pages, dtype=torch.int64, device=self.device)
        for layer, kept in zip(layers, snapshot.layers):
            for tensor, copy in zip(layer, kept):
                tensor.index_copy_(0, index, copy)
        self.books.keep(pages, snapshot.tokens)
        self.books.release(pages)
        return len(snapshot.tokens)
