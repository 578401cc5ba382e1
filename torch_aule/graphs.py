"""Graph capture: a recorded stretch of work that is submitted again as a whole.

``Graph`` is ``torch.accelerator.Graph``, which exists from torch 2.12 on; before that it is None.
"""

from __future__ import annotations

import torch

from torch_aule.stream import Stream, StreamContext, current_stream

__all__ = ["Graph", "graph", "is_current_stream_capturing"]

Graph = getattr(torch.accelerator, "Graph", None)


def is_current_stream_capturing() -> bool:
    """Whether work of the current stream goes to a graph at the moment."""
    from torch_aule import _C

    if not _C.is_initialized():
        return False
    is_capturing = getattr(current_stream(), "is_capturing", None)
    return bool(is_capturing()) if is_capturing is not None else False


class graph:
    """Context that captures into a ``Graph``, on a stream of its own unless one is given.

    Parameters
    ----------
    aule_graph : torch.aule.Graph
        What to capture into.
    stream : torch.aule.Stream, optional
        Where to capture; default: a new stream, ordered after the current one.

    Raises
    ------
    RuntimeError
        Before torch 2.12, which has no graphs.

    Examples
    --------
    >>> g = torch.aule.Graph()
    >>> with torch.aule.graph(g):
    ...     y = x @ w
    >>> x.copy_(batch); g.replay()  # y is that of the new x
    """

    def __init__(self, aule_graph, stream: Stream | None = None):
        if Graph is None:
            raise RuntimeError(f"graph capture needs torch 2.12 or newer; this is {torch.__version__}")
        self.graph = aule_graph
        self.capture_stream = stream if stream is not None else Stream(device="aule")
        self._context = StreamContext(self.capture_stream)

    def __enter__(self):
        self.capture_stream.wait_stream(current_stream(self.capture_stream.device))
        self._context.__enter__()
        try:
            self.graph.__enter__()
        except BaseException:
            self._context.__exit__()
            raise
        return self.graph

    def __exit__(self, *exc_info):
        try:
            self.graph.__exit__(*exc_info)
        finally:
            self._context.__exit__(*exc_info)
        return False
