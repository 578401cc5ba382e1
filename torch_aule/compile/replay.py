"""``torch.compile(mode="reduce-overhead")``: a compiled function's work is captured and then replayed.

Inductor asks :func:`cudagraphify` for each compiled function, or for each part of one. What it returns runs the
function twice as it is, so that pipelines are built and values measured; then it captures calls of it, one for each set
of numbers and shapes. A captured call (``csrc/runtime/captured_call.h``) has memory of its own for inputs and outputs.
An output that somebody still holds keeps its call from being replayed: another one is captured, and after a few of them
one whose outputs are copied. So results never change in the hands of their owner.
"""

from __future__ import annotations

import contextvars
import warnings
from collections import Counter

import torch
from torch._dynamo.utils import counters

from torch_aule import _C
from torch_aule.backend.graphs import capture_lock, capture_stream
from torch_aule.backend.streams import StreamContext

__all__ = ["GraphedFunction", "cudagraphify", "install_graphs"]

_log = torch._logging.getArtifactLogger(__name__, "perf_hints")

WARM_UPS = 2  # calls of a function before its first capture; later shapes take one
MOST_ALIVE = 4  # captured calls for the same inputs; the last of them hands out copies
MOST_MOVES = 2  # addresses that an input may have before it is copied, in memory that is not a captured call's
MOST_CACHES = 8  # addresses of inputs that are written, for one shape
MOST_CALLS = 128  # captured calls of a function
MOST_SHAPES = 1024  # that a function remembers
SCALAR_BYTES = 16  # copied rather than taken by address, as outputs of this size are copied too


class _Shape:
    """The state of one set of numbers, sizes and strides."""

    def __init__(self):
        self.ran = False  # without a graph
        self.calls = []


def _shape_key(inputs: list) -> tuple:
    return tuple((i.shape, i.stride(), i.dtype, i.device.type) if isinstance(i, torch.Tensor) else i for i in inputs)


class GraphedFunction:
    """A compiled function that replays captured calls where it can.

    Parameters
    ----------
    model : callable
        Takes a list of tensors and ints, which it may empty, and returns a list or tuple of tensors, ints and None.
    static_inputs : sequence of int
        Inputs whose addresses seldom change: parameters, and what the forward saved for a backward.
    device_index : int
        Of the device that computes.
    mutated_inputs : sequence of int
        Inputs that the function writes.

    Attributes
    ----------
    refused : str or None
        Why the function runs without graphs, once that is known.
    """

    def __init__(self, model, static_inputs=(), *, device_index: int, mutated_inputs=()):
        self.model = model
        self.refused: str | None = None
        self._device = device_index
        self._static = frozenset(static_inputs)
        self._mutated = frozenset(mutated_inputs)
        self._copied: set[int] = set()  # inputs whose addresses changed too often
        self._moves: Counter[int] = Counter()
        self._addresses_seen: dict[tuple, None] = {}
        self._table = _C.CallTable(device_index)
        self._shapes: dict[tuple, _Shape] = {}
        self._ran = 0
        self._told_full = False

    @property
    def calls(self) -> list:
        """The captured calls."""
        return self._table.calls

    def __call__(self, inputs):
        outputs = self._table.replay(inputs)
        return self._without_replay(inputs) if outputs is None else outputs

    def _without_replay(self, inputs):
        if self.refused is not None or _C.is_capturing():  # a capture by the user takes the work itself
            return self.model(inputs)
        if reason := self._reason_against(inputs):
            self._refuse(reason)
            return self.model(inputs)
        shape = self._shape_of(inputs)
        copies = self._plan(shape, inputs)
        if copies is None or not _may_capture(inputs):
            shape.ran = True
            self._ran += 1
            return self.model(inputs)
        return self._capture(shape, inputs, copies)

    def _shape_of(self, inputs) -> _Shape:
        key = _shape_key(inputs)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MOST_SHAPES:
                for old in [k for k, s in self._shapes.items() if not s.calls][: MOST_SHAPES // 2]:
                    del self._shapes[old]
            shape = self._shapes[key] = _Shape()
        return shape

    def _reason_against(self, inputs) -> str | None:
        if not _C.can_be_captured(inputs, self._device):
            return "an input is neither a plain tensor of the device nor an int nor a scalar on the host"
        if any(isinstance(inputs[i], torch.Tensor) and inputs[i].device.type == "cpu" for i in self._mutated):
            return "it writes a tensor on the host"
        return None

    def _refuse(self, reason: str) -> None:
        self.refused = reason
        self._table.clear()
        self._shapes.clear()
        counters["inductor"]["cudagraph_skips"] += 1
        _log.info("no graph is replayed for a compiled function: %s", reason)

    def _plan(self, shape: _Shape, inputs) -> bool | None:
        """None: run without a graph this time. Else capture, and hand out copies of outputs if True."""
        if self._ran < WARM_UPS or not shape.ran:
            return None
        if len(self.calls) >= MOST_CALLS:
            if not self._told_full:
                self._told_full = True
                _log.info("a compiled function has %d graphs; other inputs run without one", MOST_CALLS)
            return None
        busy = [c for c in shape.calls if c.fits(inputs) == _C.Fit.whole]
        if busy:
            copies = len(busy) >= MOST_ALIVE - 1
            return None if copies and busy[0].names_random_state else copies
        return False if self._addresses_are_known(shape, inputs) else None

    def _addresses_are_known(self, shape: _Shape, inputs) -> bool:
        moved = min((c.moved(inputs) for c in shape.calls), key=len, default=[])
        if not moved:
            return True
        kept = [i for i in moved if i in self._mutated or isinstance(inputs[i], torch.nn.Parameter)]
        if kept:
            # Another module that shares the code, or another cache. Such inputs are not copied: they are large, or are
            # written. They get a graph of their own when they come back.
            addresses = tuple(inputs[i].data_ptr() for i in kept)
            if addresses not in self._addresses_seen:
                if len(self._addresses_seen) < MOST_SHAPES:
                    self._addresses_seen[addresses] = None
                return False
            if len(shape.calls) >= MOST_CACHES and not any(isinstance(inputs[i], torch.nn.Parameter) for i in kept):
                self._table.remove(shape.calls.pop(0))  # a cache of long ago
            return True
        for i in moved:
            self._moves[i] += 1
            on_host = inputs[i].device.type == "cpu"
            if self._moves[i] < (MOST_ALIVE if on_host or _C.is_output_of_call(inputs[i]) else MOST_MOVES):
                continue
            if on_host:  # a scalar that differs from call to call
                return False
            self._copied.add(i)
            for call in [c for c in shape.calls if i in c.moved(inputs)]:
                self._table.remove(call)
                shape.calls.remove(call)
        return True

    def _by_address(self, index: int, value) -> bool:
        if not isinstance(value, torch.Tensor) or value.device.type != "aule" or index in self._copied:
            return False
        if index in self._mutated or isinstance(value, torch.nn.Parameter) or _C.is_output_of_call(value):
            return True
        return index in self._static and value.nbytes > SCALAR_BYTES

    def _capture(self, shape: _Shape, inputs, copies: bool):
        by_address = [self._by_address(i, value) for i, value in enumerate(inputs)]
        like = shape.calls[0] if shape.calls else None
        try:
            try:
                call = self._captured(inputs, by_address, copies, like)
            except torch.OutOfMemoryError:
                torch.aule.empty_cache()  # which nothing does while a graph is captured
                call = self._captured(inputs, by_address, copies, like)
        except Exception as error:
            self._refuse(f"its capture failed: {error}")
            return self.model(inputs)
        self._table.add(call)
        shape.calls.append(call)
        outputs = self._table.replay(inputs)
        return self.model(inputs) if outputs is None else outputs

    def _captured(self, inputs, by_address, copies, like):
        call = _C.CapturedCall(self._device, inputs, by_address, copies, like)
        with capture_lock, StreamContext(capture_stream(self._device)):
            captured = call.begin()
            try:
                call.end(self.model(captured))
            except BaseException:
                call.abandon()
                raise
        counters["aule"]["graphs_captured"] += 1
        return call


def _may_capture(inputs) -> bool:
    """Whether the user's choice of sizes (``triton.cudagraph_capture_sizes``) contains these."""
    from torch._inductor import config

    sizes = getattr(config.triton, "cudagraph_capture_sizes", None)
    if sizes is None:
        return True
    numbers = [i for i in inputs if isinstance(i, int)]
    return (numbers[0] if len(numbers) == 1 else tuple(numbers) if numbers else None) in sizes


def cudagraphify(
    model, static_input_idxs=(), *, device_index: int, mutated_input_idxs=(), constants=(), placeholders=(),
    stack_traces=None, is_backward=False, is_inference=False, **more
):  # fmt: skip
    """The function that Inductor calls with a compiled function, or with each part of one.

    Parameters
    ----------
    model : callable
        The function: it takes a list, which it empties, and returns a list or tuple.
    static_input_idxs : sequence of int
        Inputs whose addresses seldom change.
    device_index : int
        Of the device that computes.
    mutated_input_idxs : sequence of int
        Inputs that the function writes.
    constants, placeholders, stack_traces, is_backward, is_inference, **more
        What Inductor says besides. Not needed here.

    Returns
    -------
    GraphedFunction
        To be called as `model` is.
    """
    return GraphedFunction(model, static_input_idxs, device_index=device_index, mutated_inputs=mutated_input_idxs)


_for_aule = contextvars.ContextVar("torch_aule_graphs", default=False)  # a graph of ours passes through post_compile


def accepts_aule(original):
    """Of check_multiple_devices_or_any_cpu_nodes, which knows one device type."""

    def check(device_node_mapping):
        from torch._inductor.cudagraph_utils import is_using_cudagraph_partition

        passed_over = {"meta", "cpu"} if is_using_cudagraph_partition() else {"meta"}
        computing = [device for device in device_node_mapping if device.type not in passed_over]
        if len(computing) == 1 and computing[0].type == "aule":
            return None
        return original(device_node_mapping)

    return check


def by_device(original):
    """Of compile_fx.cudagraphify."""

    def dispatch(model, static_input_idxs=(), **kwargs):
        return (cudagraphify if _for_aule.get() else original)(model, static_input_idxs, **kwargs)

    return dispatch


def _is_ours(args, kwargs) -> bool:
    graphs = [g for g in (*args, *kwargs.values()) if hasattr(g, "device_types")]
    return bool(graphs) and "aule" in graphs[0].device_types


def says_for_whom(original):
    """Of the functions that call compile_fx.cudagraphify."""

    def post_compile(*args, **kwargs):
        token = _for_aule.set(_is_ours(args, kwargs))
        try:
            return original(*args, **kwargs)
        finally:
            _for_aule.reset(token)

    return post_compile


def without_tree_manager(original):
    """Of maybe_handle_backward_generation, which asserts that CUDA's manager of graphs is there."""

    def handle(*args, **kwargs):
        return None if _is_ours(args, kwargs) else original(*args, **kwargs)

    return handle


def aligns_always(original):
    """Of maybe_realign_inputs, which leaves inputs alone if the work is graphed, as CUDA's graphs align what they copy.

    Ours run functions as they are, too, and take inputs by address.
    """

    def realign(ran_cudagraphs, *args, **kwargs):
        return original(False if _is_ours(args, kwargs) else ran_cudagraphs, *args, **kwargs)

    return realign


def _is_scalar_beside_results(node) -> bool:
    """Whether a node of the scheduler is a scalar on the host that an operator of ours gives beside its results.

    Attention gives the seed and the offset of its dropout so, without any work on the host.
    """
    from torch._inductor import ir

    output = node.node
    if not isinstance(output, ir.MultiOutput) or output.get_device().type != "cpu" or len(output.get_size()) > 0:
        return False
    operator = output.inputs[0]
    return isinstance(operator, ir.FallbackKernel) and operator.get_device().type == "aule"


def keeps_scalars(original):
    """Of Scheduler.should_partition, which would cut a graph at each scalar on the host."""

    def should_partition(self, node, *args, **kwargs):
        from torch._inductor import config

        reason = original(self, node, *args, **kwargs)
        if reason and config.triton.cudagraphs and _is_scalar_beside_results(node):
            return None if isinstance(reason, str) else False
        return reason

    return should_partition


def install_graphs() -> None:
    """Let Inductor's step for CUDA graphs take functions of this device to :func:`cudagraphify`, and only those."""
    from torch_aule.compile.doors import patches

    lacking = patches.missing("graphs")
    if lacking:
        warnings.warn(
            f"torch_aule: mode='reduce-overhead' runs without graphs, as torch {torch.__version__} has no "
            f"{', '.join(lacking)}",
            stacklevel=2,
        )
        return
    patches.install("graphs")
