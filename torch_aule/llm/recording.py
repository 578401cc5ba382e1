"""Steps that are recorded once for each size of batch, and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from torch_aule.llm.cache import Rows
from torch_aule.llm.pages import SCRATCH
from torch_aule.llm.slots import Slots

if TYPE_CHECKING:
    from torch_aule.llm.engine import Engine

__all__ = ["PROMPT_SIZES", "PromptRecorder", "Recorder"]

BUCKETS = (1, 2, 4, 8, 16, 32)
PROMPT_SIZES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)


class Recorder:
    """Runs steps by replays of graphs that share their memory.

    A model that waits for the device, such as one that reads a length to choose its rotary angles, cannot be recorded:
    its steps run one kernel after the other, and a warning says so once.

    Parameters
    ----------
    run : callable
        ``run(batch, mode)``: a step of the first slots.
    slots : Slots
        That a step reads and writes.
    enabled : bool
        Whether steps are recorded.
    drawn : torch.Tensor
        What a step leaves for the host.

    Notes
    -----
    The copy to the host belongs to the step, for one submission costs a GPU less than two. The host reads a step's copy
    while the next step runs, so there are two copies, and two recordings that take turns.
    """

    def __init__(self, run: Callable[[int, str], None], slots: Slots, enabled: bool, drawn: torch.Tensor):
        self._run, self._slots, self._enabled, self._drawn = run, slots, enabled, drawn
        self._graphs: dict[tuple[int, str], list[Any]] = {}  # they end before what they write to
        # The argument pin_memory would take CUDA's pinned memory where there is CUDA: no graph copies to that.
        self._hosts = [torch.empty(drawn.shape, dtype=drawn.dtype).pin_memory() for _ in range(2)]
        self._turn = 0  # whose host copy is that of the last step
        self._pool = torch.aule.graph_pool_handle() if enabled else None
        most = len(slots.requests)
        self.buckets = [*(bucket for bucket in BUCKETS if bucket < most), most]

    def bucket(self, running: int) -> int:
        """The smallest size of batch that has room.

        Parameters
        ----------
        running : int
            Slots in use.

        Returns
        -------
        int
            The size.
        """
        return next(bucket for bucket in self.buckets if bucket >= running)

    def record(self, batch: int, mode: str) -> None:
        """Record a step, unless that has been done. Sequences that run are not changed by it.

        Parameters
        ----------
        batch : int
            Size of the batch.
        mode : str
            How tokens are drawn.
        """
        if not self._enabled or (batch, mode) in self._graphs:
            return
        graphs = [torch.aule.Graph() for _ in self._hosts]
        with self._slots.nobody():
            self._whole(batch, mode, 1 - self._turn)  # kernels are made, and caches of constants filled
            try:
                for turn, graph in enumerate(graphs):
                    with torch.aule.graph(graph, pool=self._pool):
                        self._whole(batch, mode, turn)
            except RuntimeError as error:
                self._enabled = False
                warnings.warn(
                    f"torch_aule.llm: this model's steps cannot be recorded, and run slower ({error})", stacklevel=2
                )
                return
        self._graphs[batch, mode] = graphs

    def _whole(self, batch: int, mode: str, turn: int) -> None:
        self._run(batch, mode)
        self._hosts[turn].copy_(self._drawn, non_blocking=True)

    def step(self, batch: int, mode: str) -> torch.Tensor:
        """Run a step, recorded or not.

        Parameters
        ----------
        batch : int
            Size of the batch.
        mode : str
            How tokens are drawn.

        Returns
        -------
        torch.Tensor
            On the host, what was drawn, once the device is done. The step after the next writes it again.
        """
        self.record(batch, mode)
        self._turn = 1 - self._turn
        graphs = self._graphs.get((batch, mode)) if self._enabled else None
        if graphs is None:
            self._whole(batch, mode, self._turn)
        else:
            graphs[self._turn].replay()
        return self._hosts[self._turn]


class PromptRecorder:
    """Reads prompts by replays, since the host needs longer to launch a short prompt's kernels than a GPU to run them.

    There is a recording for each of :data:`PROMPT_SIZES`. A prompt is padded to the next size: what is behind its end
    is computed for nothing, goes to rows of the sequence that are written again later, or to the scratch page, and no
    token of the prompt sees it.

    Parameters
    ----------
    engine : Engine
        Without recurrent layers, which have no rows.
    pages, page_size : int
        Most pages of a sequence, and their tokens.
    """

    def __init__(self, engine: Engine, pages: int, page_size: int):
        self._engine, self._page_size, device = engine, page_size, engine.model.device
        self._ids = torch.zeros((1, PROMPT_SIZES[-1]), dtype=torch.int64, device=device)
        self._lengths = torch.zeros(1, dtype=torch.int32, device=device)
        self._last = torch.zeros(1, dtype=torch.int64, device=device)
        behind = -(-PROMPT_SIZES[-1] // page_size)
        self._table = torch.full((1, pages + behind), SCRATCH, dtype=torch.int32, device=device)
        self._pool = torch.aule.graph_pool_handle()
        self._graphs: dict[int, tuple[Any, torch.Tensor]] = {}
        self.enabled = True

    def _run(self, size: int) -> torch.Tensor:
        rows = Rows(self._lengths, self._table, size)
        return self._engine.forward(self._ids[:, :size], rows, 1, keep=self._last)[:, 0]

    def _record(self, size: int) -> bool:
        if size in self._graphs:
            return True
        self._table.fill_(SCRATCH)
        self._lengths.zero_()
        self._last.zero_()
        self._run(size)
        graph = torch.aule.Graph()
        try:
            with torch.aule.graph(graph, pool=self._pool):
                logits = self._run(size)
        except RuntimeError:  # the steps of this model say so too
            self.enabled = False
            return False
        self._graphs[size] = graph, logits
        return True

    def read(self, row: torch.Tensor, prompt: list[int], shared: int) -> torch.Tensor | None:
        """Put a prompt into the cache.

        Parameters
        ----------
        row : torch.Tensor
            int32 ``[pages]``: of the sequence.
        prompt : list of int
            Its tokens.
        shared : int
            How many of them are in the cache already.

        Returns
        -------
        torch.Tensor or None
            Logits of the last token, ``[1, vocabulary]``, until the next call; None if the model cannot be recorded.
        """
        logits = None
        for first in range(shared, len(prompt), PROMPT_SIZES[-1]):
            piece = prompt[first : first + PROMPT_SIZES[-1]]
            size = next(size for size in PROMPT_SIZES if size >= len(piece))
            if not self._record(size):
                return None
            self._ids[0, : len(piece)].copy_(torch.tensor(piece))
            self._table[0, : row.numel()].copy_(row)
            self._lengths.fill_(first)
            self._last.fill_(len(piece) - 1)
            graph, logits = self._graphs[size]
            graph.replay()
        return logits
