"""The key-value cache of a runner: pages of all sequences, whose lengths live on the device.

transformers' models write to it through ``Cache.update`` and read it through an attention function of ours, so that a
model needs no change.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, LinearAttentionCacheLayerMixin
from transformers.cache_utils import LinearAttentionLayer as TransformersLinearAttentionLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = [
    "PagedCache",
    "PagedLayer",
    "Rows",
    "UnsupportedModelError",
    "attend",
    "cache_argument",
    "check_cache_dtype",
    "current_layer",
    "current_rows",
    "layer_shapes",
    "new_pages",
    "new_states",
    "paged_attention",
    "row_bytes",
    "seen_attention",
]

ATTENTION = "aule_paged"  # the name of our attention function in transformers' table
FEW = 16  # queries of a sequence that attention over pages takes at once
BLOCK = 32  # numbers of a row that share a scale in a cache of 8 bits
SCALE = torch.bfloat16


class UnsupportedModelError(RuntimeError):
    """A model whose caches or layers are not understood."""


@dataclass
class Rows:
    """The rows of a cache to which the tokens of one call go.

    Parameters
    ----------
    lengths : torch.Tensor
        int32 ``[batch]``: rows of each sequence before the call.
    table : torch.Tensor
        int32 ``[batch, pages of a sequence]``.
    tokens : int
        Of each sequence in this call.
    past : int or None
        The number of rows before the call where the host knows it, for a call with one sequence; otherwise None.
    """

    lengths: torch.Tensor
    table: torch.Tensor
    tokens: int
    past: int | None = None

    @cached_property
    def after(self) -> torch.Tensor:
        """int32 ``[batch]``: rows after the call. An append that has counted them sets it."""
        return self.lengths + self.tokens


class PagedLayer(CacheLayerMixin):
    """Keys and values of one attention layer, ``[pages, page_size, kv_heads, head_dim]``.

    Parameters
    ----------
    key_cache, value_cache : torch.Tensor
        In the dtype of the model, or int8.
    key_scale, value_scale : torch.Tensor, optional
        Of caches in int8: bfloat16 ``[pages, page_size, kv_heads, head_dim / 32]``, one for each block of numbers.
    """

    is_compileable = True
    is_sliding = False

    def __init__(
        self,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        key_scale: torch.Tensor | None = None,
        value_scale: torch.Tensor | None = None,
    ):
        super().__init__()
        self.key_cache, self.value_cache = key_cache, value_cache
        self.key_scale, self.value_scale = key_scale, value_scale
        self.is_initialized = True
        self.rows: Rows | None = None
        self.is_new = False  # update() has been called since the last attention

    def lazy_initialization(self, key_states, value_states=None):
        pass

    def update(self, key_states, value_states, *args, **kwargs):
        torch.ops.aule.kv_cache_append(
            key_states.transpose(1, 2),
            value_states.transpose(1, 2),
            self.key_cache,
            self.value_cache,
            self.rows.lengths,
            self.rows.table,
            key_scale=self.key_scale,
            value_scale=self.value_scale,
        )
        self.is_new = True
        return key_states, value_states

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All tensors of the pages, ``[pages, page_size, kv_heads, ...]``."""
        every = (self.key_cache, self.value_cache, self.key_scale, self.value_scale)
        return [t for t in every if t is not None]

    def get_mask_sizes(self, query_length):
        return query_length, 0

    def get_seq_length(self):
        return 0  # positions are given to the model; the host does not know the lengths

    def get_max_length(self):
        return -1


class PagedCache(Cache):
    """Layers in pages, and the states of recurrent layers, for one size of batch.

    Parameters
    ----------
    layers : list
        :class:`PagedLayer`, or transformers' layers of recurrent states.
    """

    def __init__(self, layers):
        super().__init__(layers=layers)
        self.rows: Rows | None = None

    @contextmanager
    def at(self, rows: Rows):
        """Calls of a model inside write and read these rows.

        Parameters
        ----------
        rows : Rows
            Of the call.
        """
        before = getattr(_current, "cache", None)
        _current.cache, self.rows = self, rows
        for layer in self.layers:
            if isinstance(layer, PagedLayer):
                layer.rows = rows
        try:
            yield
        finally:
            _current.cache = before


_current = threading.local()


def _attend(
    module,
    query,
    key,
    value,
    attention_mask,
    scaling=None,
    dropout=0.0,
    sliding_window=None,
    softcap=None,
    s_aux=None,
    **kwargs,
):
    """transformers' attention function: query [batch, heads, n, head_dim] over the cache that is current."""
    cache = getattr(_current, "cache", None)
    index = getattr(module, "layer_idx", None)
    layer = None if cache is None or index is None or index >= len(cache.layers) else cache.layers[index]
    if not isinstance(layer, PagedLayer) or not layer.is_new:
        raise UnsupportedModelError(
            f"torch_aule.llm: {type(module).__name__} attends to keys that it did not put into the cache; this "
            "architecture is not supported"
        )
    layer.is_new = False
    seen = getattr(_current, "seen", None)
    if seen is not None:
        seen[index] = {"scaling": scaling, "sliding_window": sliding_window, "softcap": softcap, "s_aux": s_aux}
    return attend(layer, query, key, value, scaling, sliding_window, softcap, s_aux), None


def attend(layer: PagedLayer, query, key, value, scaling, sliding_window, softcap, s_aux) -> torch.Tensor:
    """Attention over the rows that a layer has, those of this call included.

    Parameters
    ----------
    layer : PagedLayer
        Into which the keys and values have been put.
    query, key, value : torch.Tensor
        ``[batch, heads, tokens, head_dim]``; `key` and `value` are read if a prompt begins here.
    scaling, sliding_window, softcap, s_aux
        As transformers gives them to an attention function.

    Returns
    -------
    torch.Tensor
        ``[batch, tokens, heads, head_dim of the values]``.
    """
    rows = layer.rows
    assert rows is not None
    left = -1 if sliding_window is None else int(sliding_window) - 1
    softcap = 0.0 if softcap is None else float(softcap)
    in_8_bits = layer.key_scale is not None
    if rows.past is None or rows.tokens <= FEW or (in_8_bits and rows.past > 0):
        out, lse = torch.ops.aule.flash_attn_decode(
            query.transpose(1, 2),
            layer.key_cache,
            layer.value_cache,
            rows.after,
            rows.table,
            True,
            scaling,
            left,
            -1,
            softcap,
            check=False,  # the tables are the runner's own
            key_scale=layer.key_scale,
            value_scale=layer.value_scale,
        )
    else:
        if rows.past > 0:
            key, value = (_gathered(c, rows) for c in (layer.key_cache, layer.value_cache))
        out, lse, *_ = torch.ops.aule.flash_attn_fwd(
            query, key, value, None, 0.0, True, scaling, left, -1, softcap, True
        )
        out = out.transpose(1, 2)
    if s_aux is not None:  # a further term of the softmax's sum, without a value
        out = out * torch.sigmoid(lse - s_aux.view(1, -1, 1)).transpose(1, 2).unsqueeze(-1).to(out.dtype)
    return out


@contextmanager
def seen_attention():
    """Inside, what attention functions are given is noted: a dictionary by the number of the layer."""
    _current.seen = {}
    try:
        yield _current.seen
    finally:
        _current.seen = None


def current_rows() -> Rows | None:
    """The rows of the call that is under way; None outside of one."""
    cache = getattr(_current, "cache", None)
    return None if cache is None else cache.rows


def current_layer(index: int) -> PagedLayer:
    """The layer of the cache that is current."""
    return _current.cache.layers[index]


def _gathered(cache: torch.Tensor, rows: Rows) -> torch.Tensor:
    """The rows of one sequence, those of this call included: [1, heads, rows, head_dim]."""
    assert rows.past is not None
    most = rows.past + rows.tokens
    pages = -(-most // cache.size(1))
    return cache[rows.table[0, :pages]].flatten(0, 1)[:most].transpose(0, 1).unsqueeze(0)


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)


def cache_argument(model) -> str:
    """The name of the cache in a model's forward: "cache" from transformers 5.24 on, "past_key_values" before."""
    import inspect

    parameters = inspect.signature(model.forward).parameters
    for name in ("cache", "past_key_values", "cache_params"):
        if name in parameters:
            return name
    raise UnsupportedModelError(f"torch_aule.llm: {type(model).__name__}.forward takes no cache")


@contextmanager
def paged_attention(model):
    """Inside, the model's attention is ours. Its configuration is as before afterwards.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Of any architecture that looks its attention up in transformers' table.
    """
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values()
    before = [(config, config._attn_implementation) for config in configs if hasattr(config, "_attn_implementation")]
    try:
        for config, _ in before:
            config._attn_implementation = ATTENTION
        yield
    finally:
        for config, name in before:
            config._attn_implementation = name


def layer_shapes(model) -> list:
    """The state that each layer of a model keeps, found by a forward of one token.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        On its device.

    Returns
    -------
    list of tuple
        For an attention layer ``("pages", kv_heads, head_dim, head_dim of the values, dtype)``; for a recurrent one
        ``("states", conv_states, recurrent_states)``, tensors of one sequence by their number in the layer.

    Raises
    ------
    UnsupportedModelError
        For layers of other kinds.
    """
    cache = DynamicCache(config=model.config)
    ids = torch.zeros((1, 1), dtype=torch.int64, device=model.device)
    with torch.no_grad():
        model(input_ids=ids, use_cache=True, **{cache_argument(model): cache})
    shapes: list[tuple] = []
    for layer in cache.layers:
        recurrent = isinstance(layer, LinearAttentionCacheLayerMixin)
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if recurrent and keys is None and type(layer) is TransformersLinearAttentionLayer:
            shapes.append(("states", dict(layer.conv_states), dict(layer.recurrent_states)))
        elif (
            not recurrent
            and isinstance(layer, CacheLayerMixin)
            and keys is not None
            and values is not None
            and keys.dim() == 4
        ):
            shapes.append(("pages", keys.size(1), keys.size(3), values.size(3), keys.dtype))
        else:
            raise UnsupportedModelError(
                f"torch_aule.llm: {type(model).__name__} has layers of {type(layer).__name__}, which are not supported"
            )
    return shapes


def _sizes(shape: tuple, kv_cache_dtype: str | None) -> list[tuple[int, torch.dtype]]:
    """Of each tensor of a layer's pages, what a head's row has."""
    _, *sizes, dtype = shape
    if kv_cache_dtype is None:
        return [(size, dtype) for size in sizes]
    return [(size, torch.int8) for size in sizes] + [(size // BLOCK, SCALE) for size in sizes]


def check_cache_dtype(kv_cache_dtype: str | None, shapes: list, name: str) -> None:
    """Whether keys and values of a model can be kept so.

    Parameters
    ----------
    kv_cache_dtype : str or None
        "int8", or None: the dtype that the model computes them in.
    shapes : list
        From :func:`layer_shapes`.
    name : str
        Of the model, for the message.

    Raises
    ------
    ValueError
        For another dtype, or a head size that is no multiple of 32.
    """
    if kv_cache_dtype not in (None, "int8"):
        raise ValueError(f"torch_aule.llm: expected kv_cache_dtype to be None or 'int8', but got {kv_cache_dtype!r}")
    for kind, *shape in shapes:
        if kv_cache_dtype is None or kind != "pages":
            continue
        odd = [size for size in shape[1:3] if size % BLOCK]
        if odd:
            raise ValueError(
                f"torch_aule.llm: kv_cache_dtype='int8' needs heads whose size is a multiple of {BLOCK}, but those of "
                f"{name} have a head_dim of {odd[0]}"
            )


def row_bytes(shapes: list, kv_cache_dtype: str | None = None) -> int:
    """The bytes of a token's keys and values in all layers.

    Parameters
    ----------
    shapes : list
        From :func:`layer_shapes`.
    kv_cache_dtype : str, optional
        As :class:`torch_aule.llm.Runner` takes it.

    Returns
    -------
    int
        Bytes; 0 without attention.
    """
    layers = [shape for kind, *shape in shapes if kind == "pages"]
    return sum(shape[0] * n * dtype.itemsize for shape in layers for n, dtype in _sizes(shape, kv_cache_dtype))


def new_pages(pages: int, page_size: int, shape, device: torch.device, kv_cache_dtype: str | None) -> PagedLayer:
    """Pages of a layer, filled with zeros.

    Parameters
    ----------
    pages, page_size : int
        How many, and their tokens.
    shape : sequence
        From :func:`layer_shapes`, without the kind.
    device : torch.device
        Where.
    kv_cache_dtype : str or None
        As :class:`torch_aule.llm.Runner` takes it.

    Returns
    -------
    PagedLayer
        New.
    """
    rows = (pages, page_size, shape[0])
    return PagedLayer(
        *(torch.zeros((*rows, n), dtype=dtype, device=device) for n, dtype in _sizes(shape, kv_cache_dtype))
    )


def new_states(conv_states: dict, recurrent_states: dict) -> TransformersLinearAttentionLayer:
    """A layer of transformers' with these tensors as its states of the past; it updates them in place."""
    layer = TransformersLinearAttentionLayer(number_of_states=len(conv_states))
    sizes = {i: state.size(-1) for i, state in conv_states.items() if state is not None}
    for i, state in conv_states.items():
        if state is not None:
            layer.dtype, layer.device = state.dtype, state.device
            layer.conv_states[i], layer.conv_kernel_size[i] = state, sizes[i]
            layer.is_conv_states_initialized[i] = True
    for i, state in recurrent_states.items():
        if state is not None:
            layer.recurrent_states[i] = state
            layer.is_recurrent_states_initialized[i] = True
    layer.has_previous_state = dict.fromkeys(layer.has_previous_state, True)
    return layer
