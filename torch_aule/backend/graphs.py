"""Graph capture: a recorded stretch of work that is submitted again as a whole.

``Graph`` is ``torch.accelerator.Graph``, which exists from torch 2.12 on; before that it is a class here with the same
methods. :func:`make_graphed_callables` puts a module's forward and backward into graphs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch.utils import _pytree as pytree

from torch_aule.backend.streams import Stream, StreamContext, current_stream

__all__ = ["Graph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

# One graph is captured at a time: the random numbers of a device are counted for one.
capture_lock = threading.RLock()


def capture_stream(index: int) -> Stream:
    """The stream on which this library's captures record. One for each device: pools keep blocks by stream.

    Parameters
    ----------
    index : int
        Of the device.

    Returns
    -------
    Stream
        The same for each call.
    """
    from torch_aule import _C

    # Not one of the pool: a program's own stream may be any of those, and its work would be captured.
    kind = current_stream(index).device_type
    return Stream(stream_id=_C.capture_stream_id(), device_index=index, device_type=kind)


class _Graph:
    """``torch.accelerator.Graph`` for torch versions without it.

    Parameters
    ----------
    keep_graph : bool
        Accepted for the sake of programs that pass it: a graph is kept in any case.
    pool : tuple of int, optional
        Of :func:`graph_pool_handle`; default: memory of its own.
    capture_error_mode : str
        Accepted, too: what cannot be captured raises.
    """

    def __init__(self, keep_graph: bool = False, *, pool=None, capture_error_mode: str = "default"):
        from torch_aule import _C

        self._graph = _C.Graph()
        self.graph_pool = pool

    def capture_begin(self) -> None:
        """Record instead of run, from now on, on the current stream."""
        self._graph.capture_begin(self.graph_pool or (0, 0))

    def capture_end(self) -> None:
        """Stop recording."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Nothing: capture_end left a graph that can be replayed."""

    def replay(self) -> None:
        """Run what was recorded, on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Give back what was recorded and its memory."""
        self._graph.reset()

    def enable_debug_mode(self) -> None:
        """Nothing: a graph always knows what it has."""

    def debug_dump(self, path: str) -> None:
        """Write how many commands, barriers and submissions it has."""
        self._graph.debug_dump(path)

    def pool(self) -> tuple[int, int]:
        """The graph's memory pool, to be shared with another graph."""
        return self._graph.pool()

    def __enter__(self) -> None:
        torch.accelerator.synchronize()
        self.capture_begin()

    def __exit__(self, *exc_info) -> None:
        self.capture_end()


Graph = getattr(torch.accelerator, "Graph", _Graph)


def graph_pool_handle() -> tuple[int, int]:
    """A name for a memory pool that several graphs are to share, as ``torch.cuda.graph_pool_handle``."""
    from torch_aule import _C

    return _C.fresh_pool()


def is_current_stream_capturing() -> bool:
    """Whether work of the current stream goes to a graph at the moment."""
    from torch_aule import _C

    return _C.is_initialized() and _C.is_capturing()


class graph:
    """Context that captures into a ``Graph``, on a stream of its own unless one is given.

    Parameters
    ----------
    aule_graph : torch.aule.Graph
        What to capture into.
    pool : tuple of int, optional
        Of another graph, or from :func:`graph_pool_handle`: the two then share memory. Replay them in the order in
        which they were captured, and use a graph's results before the next replay. Default: the graph's own.
    stream : torch.aule.Stream, optional
        Where to capture; default: one that all captures of the device share, ordered after the current one.

    Examples
    --------
    >>> g = torch.aule.Graph()
    >>> with torch.aule.graph(g):
    ...     y = x @ w
    >>> x.copy_(batch); g.replay()  # y is that of the new x
    """

    def __init__(self, aule_graph, pool: tuple[int, int] | None = None, stream: Stream | None = None):
        self.graph = aule_graph
        if pool is not None:
            self.graph.graph_pool = pool
        self.capture_stream = stream if stream is not None else capture_stream(current_stream().device.index)
        self._context = StreamContext(self.capture_stream)

    def __enter__(self):
        capture_lock.acquire()
        try:
            self.capture_stream.wait_stream(current_stream(self.capture_stream.device))
            self._context.__enter__()
            try:
                self.graph.__enter__()
            except BaseException:
                self._context.__exit__()
                raise
        except BaseException:
            capture_lock.release()
            raise
        return self.graph

    def __exit__(self, *exc_info):
        try:
            self.graph.__exit__(*exc_info)
        finally:
            self._context.__exit__(*exc_info)
            capture_lock.release()
        return False


@contextmanager
def _capturing(graph, pool):
    """Captures into a `_C.Graph` on the current stream. One that could not be finished is empty afterwards."""
    with capture_lock:
        graph.capture_begin(pool)
        try:
            yield
        except BaseException:
            graph.reset()
            raise
        graph.capture_end()


class _GraphedCallable:
    """Forward and backward of one callable, captured over its sample arguments."""

    def __init__(self, function: Callable, sample_args: tuple):
        from torch_aule import _C

        self.function = function
        self.args = sample_args
        self.arguments = tuple(pytree.arg_tree_leaves(*sample_args))
        is_module = isinstance(function, torch.nn.Module)
        if is_module and (function._backward_hooks or function._forward_hooks or function._forward_pre_hooks):
            raise ValueError("make_graphed_callables: register hooks on a module afterwards, not before")
        if is_module and any(b.requires_grad for b in function.buffers()):
            raise ValueError("make_graphed_callables: only parameters of a module may require gradients, no buffers")
        if not all(isinstance(a, torch.Tensor) for a in self.arguments):
            raise TypeError("make_graphed_callables: sample_args must contain tensors only")
        self.parameters = tuple(function.parameters()) if is_module else ()
        self.inputs = self.arguments + self.parameters
        self.wanted = tuple(i for i in self.inputs if i.requires_grad)
        self.forward_graph, self.backward_graph = _C.Graph(), _C.Graph()

    def _gradients(self, outputs, gradients, allow_unused):
        return torch.autograd.grad(outputs, self.wanted, gradients, only_inputs=True, allow_unused=allow_unused)

    def warm_up(self, times: int, allow_unused: bool) -> None:
        for _ in range(times):
            leaves = pytree.tree_leaves(self.function(*self.args))
            outputs = tuple(o for o in leaves if isinstance(o, torch.Tensor) and o.requires_grad)
            if outputs:
                self._gradients(outputs, tuple(torch.empty_like(o) for o in outputs), allow_unused)

    def capture_forward(self, pool) -> None:
        with _capturing(self.forward_graph, pool):
            outputs = self.function(*self.args)
        self.outputs, self.structure = pytree.tree_flatten(outputs)

    def capture_backward(self, pool, allow_unused: bool) -> None:
        differentiable = [isinstance(o, torch.Tensor) and o.requires_grad for o in self.outputs]
        self.output_gradients = [torch.empty_like(o) if d else None for o, d in zip(self.outputs, differentiable)]
        self.input_gradients = [None] * len(self.inputs)
        if any(differentiable):
            outputs = tuple(o for o, d in zip(self.outputs, differentiable) if d)
            with _capturing(self.backward_graph, pool):
                found = self._gradients(outputs, tuple(g for g in self.output_gradients if g is not None), allow_unused)
            found = iter(found)
            self.input_gradients = [next(found) if i.requires_grad else None for i in self.inputs]
        # Without the autograd graph: its nodes would tie the parameters' gradients to the stream of the capture.
        self.outputs = [o.detach() if isinstance(o, torch.Tensor) else o for o in self.outputs]

    def _fill(self, index: int, given: torch.Tensor) -> None:
        own = self.arguments[index]
        if own.data_ptr() == given.data_ptr():
            return
        if own.shape != given.shape or own.dtype != given.dtype:
            raise ValueError(
                f"graphed callable: argument {index} was captured as {own.dtype} {tuple(own.shape)}, "
                f"but got {given.dtype} {tuple(given.shape)}"
            )
        own.copy_(given)

    def graphed(self) -> Callable:
        """The function that replays."""
        part = self
        tensors = [i for i, o in enumerate(self.outputs) if isinstance(o, torch.Tensor)]

        class Replay(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                for index in range(len(part.arguments)):
                    part._fill(index, inputs[index])
                part.forward_graph.replay()
                outputs = tuple(part.outputs[i].detach() for i in tensors)
                ctx.mark_non_differentiable(*(o for i, o in zip(tensors, outputs) if part.output_gradients[i] is None))
                return outputs

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, *gradients):
                for index, gradient in zip(tensors, gradients):
                    own = part.output_gradients[index]
                    if own is not None and own.data_ptr() != gradient.data_ptr():
                        own.copy_(gradient)
                part.backward_graph.replay()
                return tuple(None if g is None else g.detach() for g in part.input_gradients)

        def replay(*args):
            arguments = pytree.arg_tree_leaves(*args)
            if len(arguments) != len(part.arguments):
                raise ValueError(f"graphed callable: captured with {len(part.arguments)} tensors, got {len(arguments)}")
            outputs = list(part.outputs)
            for index, output in zip(tensors, Replay.apply(*arguments, *part.parameters)):
                outputs[index] = output
            return pytree.tree_unflatten(outputs, part.structure)

        return replay


def _with_training_state(module: torch.nn.Module, replay: Callable) -> Callable:
    """A forward that replays while the module is in the state, training or not, in which it was captured."""
    training, original = module.training, module.forward

    def forward(*args, **kwargs):
        return replay(*args, **kwargs) if module.training == training else original(*args, **kwargs)

    return forward


def make_graphed_callables(
    callables, sample_args, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool=None
):
    """Graphed versions of functions or modules, as ``torch.cuda.make_graphed_callables``.

    Each one's forward is captured as a graph, and its backward as another. In a training loop they stand in for the
    originals: the forward replays one graph, and its node of the autograd graph replays the other.

    Parameters
    ----------
    callables : torch.nn.Module, function, or tuple of them
        A tuple's captures share memory: call them in that order, and run their backwards in the reverse order. A
        module gets a new ``forward`` and is returned itself. While it is in the other of its two states, training or
        evaluation, its own forward runs.
    sample_args : tuple, or tuple of tuples
        Arguments of each callable: tensors, or nested tuples, lists and dicts of tensors. These very tensors become the
        graphs' inputs: each call copies its arguments into them. Whether they require gradients is part of the graph.
    num_warmup_iters : int, default 3
        Forwards and backwards that run before the capture.
    allow_unused_input : bool, default False
        Accept inputs that the outputs do not depend on. Their gradient is None.
    pool : tuple of int, optional
        Memory shared with other graphs: their ``pool()``, or :func:`graph_pool_handle`.

    Returns
    -------
    torch.nn.Module, function, or tuple of them
        As `callables`. Results are overwritten by the next call.

    Raises
    ------
    RuntimeError
        Under autocast with its cache on (pass ``cache_enabled=False``), or if the work cannot be captured: it waits
        for the device, or copies from or to host memory.
    TypeError
        If an argument is no tensor.
    ValueError
        If a module has hooks, or buffers that require gradients.

    Examples
    --------
    >>> x = torch.randn(16, 64, device="aule")
    >>> model = torch.aule.make_graphed_callables(model, (x,))
    >>> loss = criterion(model(batch), target); loss.backward(); optimizer.step()
    """
    from torch_aule import _C

    if torch.is_autocast_enabled("aule") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables: autocast's cache would hold tensors of the capture; use "
            "torch.autocast('aule', cache_enabled=False)"
        )
    several = isinstance(callables, tuple)
    pairs = (callables, sample_args) if several else ((callables,), (sample_args,))
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(f"make_graphed_callables: {len(pairs[0])} callables, but {len(pairs[1])} tuples of arguments")
    parts = [_GraphedCallable(function, args) for function, args in zip(*pairs)]
    pool = _C.fresh_pool() if pool is None else pool
    stream = capture_stream(_C.current_device())
    before = current_stream()
    stream.wait_stream(before)
    with StreamContext(stream):
        for part in parts:
            part.warm_up(num_warmup_iters, allow_unused_input)
        stream.synchronize()
        # In the order of use, as memory is shared: what a pass frees serves the ones after it.
        for part in parts:
            part.capture_forward(pool)
        for part in reversed(parts):
            part.capture_backward(pool, allow_unused_input)
    before.wait_stream(stream)
    graphed = []
    for part in parts:
        replay = part.graphed()
        if isinstance(part.function, torch.nn.Module):
            part.function.forward = _with_training_state(part.function, replay)
            replay = part.function
        graphed.append(replay)
    return tuple(graphed) if several else graphed[0]
