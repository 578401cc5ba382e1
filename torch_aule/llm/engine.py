"""A model with caches for a runner's slots: forwards of a few tokens of each sequence, and of whole prompts."""

from __future__ import annotations

import inspect
from contextlib import nullcontext

import torch
from transformers.cache_utils import LinearAttentionLayer

from torch_aule.llm.cache import (
    PagedCache,
    PagedLayer,
    Rows,
    cache_argument,
    check_cache_dtype,
    layer_shapes,
    new_pages,
    new_states,
    paged_attention,
)
from torch_aule.llm.optimize import Fusions
from torch_aule.llm.recording import PromptRecorder

__all__ = ["Engine"]

PROMPT_AT_ONCE = 2048  # tokens of a prompt that go through the model together


class Engine:
    """An unmodified model of transformers, and its caches.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        On its device, in evaluation mode.
    pages, page_size : int
        Of each layer's cache.
    max_batch : int
        Slots.
    max_len : int
        Most tokens of a sequence: positions go up to there.
    shapes : list, optional
        From :func:`torch_aule.llm.cache.layer_shapes`, which is asked otherwise.
    kv_cache_dtype : str, optional
        "int8": keys and values are kept in 8 bits.
    """

    def __init__(
        self,
        model,
        pages: int,
        page_size: int,
        max_batch: int,
        max_len: int,
        shapes: list | None = None,
        kv_cache_dtype: str | None = None,
    ):
        self.model, self.max_batch, self.max_len = model, max_batch, max_len
        self.argument = cache_argument(model)
        parameters = inspect.signature(model.forward).parameters
        self._takes = {name for name in ("position_ids", "logits_to_keep") if name in parameters}
        shapes = layer_shapes(model) if shapes is None else shapes
        check_cache_dtype(kv_cache_dtype, shapes, type(model).__name__)
        self._shapes, self._page_size, self._kv_cache_dtype = shapes, page_size, kv_cache_dtype
        self._layers: list = []  # a PagedLayer, or the states of all slots
        for kind, *shape in shapes:
            if kind == "pages":
                self._layers.append(new_pages(pages, page_size, shape, model.device, kv_cache_dtype))
            else:
                self._layers.append(
                    tuple(
                        {i: None if t is None else t.new_zeros((max_batch, *t.shape[1:])) for i, t in states.items()}
                        for states in shape
                    )
                )
        self._caches: dict[tuple[int, int], PagedCache] = {}
        self._constants: dict[int, torch.Tensor] = {}  # positions that nobody reads, by the number of tokens
        self.fusions: Fusions | None = None
        self.recorder: PromptRecorder | None = None

    @property
    def is_recurrent(self) -> bool:
        """Whether a layer keeps a state that cannot be taken back, nor shared by sequences."""
        return any(isinstance(layer, tuple) for layer in self._layers)

    @property
    def paged_layers(self) -> list[PagedLayer]:
        """The layers of attention, in order."""
        return [layer for layer in self._layers if isinstance(layer, PagedLayer)]

    def rows(self) -> list[torch.Tensor]:
        """The states of recurrent layers, a row for each slot."""
        states = [group for layer in self._layers if isinstance(layer, tuple) for group in layer]
        return [t for group in states for t in group.values() if t is not None]

    def layer(self, index: int):
        """A layer by its number: a :class:`PagedLayer`, or the states of all slots.

        Parameters
        ----------
        index : int
            Of the model's layers.
        """
        return self._layers[index]

    def fuse(self, rows: int) -> None:
        """Look for parts of the model that run as one (:class:`torch_aule.llm.optimize.Fusions`).

        Parameters
        ----------
        rows : int
            Of a sequence in the cache, at most, those behind its end included.
        """
        self.fusions = Fusions(self, rows)

    def record_prompts(self, pages: int, page_size: int) -> None:
        """Read prompts by replays from now on (:class:`torch_aule.llm.recording.PromptRecorder`).

        Parameters
        ----------
        pages, page_size : int
            Most pages of a sequence, and their tokens.
        """
        self.recorder = PromptRecorder(self, pages, page_size)

    def probe(self) -> None:
        """Run one token through the model, into the scratch page: what is not supported shows itself.

        Raises
        ------
        UnsupportedModelError
            For a model whose attention does not go through the cache.
        """
        device = self.model.device
        lengths, table = (torch.zeros(shape, dtype=torch.int32, device=device) for shape in ((1,), (1, 1)))
        self.forward(torch.zeros((1, 1), dtype=torch.int64, device=device), Rows(lengths, table, 1), 1, fused=False)

    def cache(self, first: int, batch: int, begins: bool = False) -> PagedCache:
        """The cache of some slots. `begins`: recurrent states are those of no tokens."""
        key = (first, batch)
        if key not in self._caches or begins:
            cache = PagedCache(
                [
                    layer
                    if isinstance(layer, PagedLayer)
                    else new_states(
                        *(
                            {i: None if t is None else t[first : first + batch] for i, t in group.items()}
                            for group in layer
                        )
                    )
                    for layer in self._layers
                ]
            )
            if begins:
                for layer in cache.layers:
                    if isinstance(layer, LinearAttentionLayer):
                        layer.has_previous_state = dict.fromkeys(layer.has_previous_state, False)
                return cache
            self._caches[key] = cache
        return self._caches[key]

    def probe_cache(self) -> PagedCache:
        """The place where parts of the model are compared: the scratch page of the first slot, and never in 8 bits.

        Rounding to 8 bits would hide differences of a hundredth.
        """
        cache = self.cache(0, 1)
        if self._kv_cache_dtype is None:
            return cache
        device = self.model.device
        layers = [
            new_pages(1, self._page_size, shape, device, None) if kind == "pages" else layer
            for (kind, *shape), layer in zip(self._shapes, cache.layers)
        ]
        return PagedCache(layers)

    def forward(self, ids: torch.Tensor, rows: Rows, batch: int, slot: int = 0, cache=None, keep=0, fused=True):
        """Logits of a few tokens, whose keys and values go into the caches.

        Parameters
        ----------
        ids : torch.Tensor
            int64 ``[batch, tokens]``.
        rows : Rows
            Where they stand.
        batch, slot : int
            The slots from `slot` on.
        cache : PagedCache, optional
            Of these slots.
        keep : int or torch.Tensor, default 0
            Of how many last tokens there are logits, 0 means all; or int64 ``[n]``, of which tokens.
        fused : bool, default True
            Run fused parts as such.

        Returns
        -------
        torch.Tensor
            ``[batch, tokens, vocabulary]``.
        """
        cache = self.cache(slot, batch) if cache is None else cache
        options: dict = {}
        if "position_ids" in self._takes:
            options["position_ids"] = self._positions(ids, rows, fused)
        some = isinstance(keep, torch.Tensor) or keep > 0
        if some and "logits_to_keep" in self._takes:
            options["logits_to_keep"], some = keep, False
        fusions = self.fusions.active() if fused and self.fusions is not None else nullcontext()
        with torch.no_grad(), cache.at(rows), paged_attention(self.model), fusions:
            logits = self.model(input_ids=ids, use_cache=True, **{self.argument: cache}, **options).logits
            if not some:
                return logits
            return logits[:, keep] if isinstance(keep, torch.Tensor) else logits[:, -keep:]

    def _positions(self, ids: torch.Tensor, rows: Rows, fused: bool) -> torch.Tensor:
        is_read = rows.past is not None or not fused or self.fusions is None or self.fusions.need_positions
        if not is_read and ids.size(1) in self._constants:
            return self._constants[ids.size(1)]
        steps = torch.arange(ids.size(1), device=ids.device)
        if not is_read:
            return self._constants.setdefault(ids.size(1), steps[None])
        # Tokens behind the end of a sequence, which steps compute for nothing, may be past the last position.
        return (rows.lengths.long()[:, None] + steps).clamp_(max=self.max_len - 1)

    def read(self, table: torch.Tensor, slot: int, prompt: list[int], shared: int) -> torch.Tensor:
        """Put a prompt into the cache of a slot, in pieces if it is long.

        Parameters
        ----------
        table : torch.Tensor
            int32 ``[slots, pages of a sequence]``.
        slot : int
            Of the sequence.
        prompt : list of int
            Its tokens.
        shared : int
            How many of them are in the cache already.

        Returns
        -------
        torch.Tensor
            Logits of the last token, ``[1, vocabulary]``.
        """
        if self.recorder is not None and self.recorder.enabled:
            logits = self.recorder.read(table[slot], prompt, shared)
            if logits is not None:
                return logits
        ids = torch.tensor(prompt[shared:], device=table.device)[None]
        cache = self.cache(slot, 1, begins=shared == 0) if self.is_recurrent else self.cache(0, 1)
        logits = None
        for first in range(0, ids.size(1), PROMPT_AT_ONCE):
            piece, past = ids[:, first : first + PROMPT_AT_ONCE], shared + first
            lengths = torch.full((1,), past, dtype=torch.int32, device=table.device)
            rows = Rows(lengths, table[slot : slot + 1], piece.size(1), past)
            logits = self.forward(piece, rows, 1, slot, cache, keep=1)[:, -1]
        assert logits is not None
        return logits
