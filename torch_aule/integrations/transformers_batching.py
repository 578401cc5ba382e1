"""Hooks for transformers' continuous batching: attention over its pages by the kernels of the device, and graphs."""

from __future__ import annotations

from contextlib import nullcontext
from types import FunctionType, ModuleType

import torch

from torch_aule.integrations._registry import Hook
from torch_aule.integrations.patch import NotAsExpected, Patches, attribute, aule_is_default, parameters_of, wrap

__all__ = ["ATTENTION", "HOOKS"]

# transformers looks for "flash" and a number in the name to know what an attention can do.
ATTENTION = "aule_flash_attention_2"
WIDEST_HEAD = 256


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
) -> torch.Tensor:
    """Attention of packed sequences, with the parameters that transformers looks for."""
    starts = (t.to(torch.int32) for t in (cu_seqlens_q, cu_seqlens_k))
    sides = (int(side) for side in window_size)
    return torch.ops.aule.varlen_attn(
        q, k, v, *starts, int(max_seqlen_q), int(max_seqlen_k), bool(causal), softmax_scale, *sides
    )[0]


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
) -> torch.Tensor:
    """Attention of sequences of one length, ``[batch, tokens, heads, head_dim]``."""

    def starts(x):
        return torch.arange(0, (x.size(0) + 1) * x.size(1), x.size(1), dtype=torch.int32, device=x.device)

    q_rows, k_rows, v_rows = (x.flatten(0, 1) for x in (q, k, v))
    out = flash_attn_varlen_func(
        q_rows, k_rows, v_rows, starts(q), starts(k), q.size(1), k.size(1), softmax_scale, causal, window_size
    )
    return out.view(*q.shape[:-1], v.size(-1))


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cache_seqlens: torch.Tensor,
    block_table: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
) -> torch.Tensor:
    """One token of each sequence, after those in its pages, to which its key and value go first."""
    import torch_aule

    return torch_aule.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, cache_seqlens=cache_seqlens, block_table=block_table, softmax_scale=softmax_scale,
        causal=causal, window_size=window_size,
    )  # fmt: skip


def _kernels(utils: ModuleType, patches: Patches) -> None:
    own = attribute(utils, "_lazy_imports", FunctionType)
    parameters_of(own, "implementation")
    pad, unpad = (attribute(utils, name, FunctionType) for name in ("_pad_input", "_unpad_input"))

    @wrap(own)
    def _lazy_imports(implementation, *args, **kwargs):
        if implementation != ATTENTION:
            return own(implementation, *args, **kwargs)
        return flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache, pad, unpad

    patches.rebind(own, _lazy_imports)


def _register(patches: Patches) -> None:
    """Enter the attention in transformers' tables. Late: they are made by modules that import the patched one."""
    from transformers.integrations.flash_attention import flash_attention_forward
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as masks
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as attentions

    for table, value in ((attentions, flash_attention_forward), (masks, masks["flash_attention_2"])):
        if ATTENTION not in table._global_mapping:
            patches.add_item(table._global_mapping, ATTENTION, value)


def _suits(model) -> bool:
    """Whether the kernels compute what the model's attention is, over the pages of a cache."""
    config = model.config.get_text_config()
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return (
        model.device.type == "aule"
        and model.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and model.config._attn_implementation == "sdpa"
        and bool(getattr(model, "_supports_flash_attn", False))
        and getattr(config, "attn_logit_softcapping", None) is None
        and size <= WIDEST_HEAD
    )


def _attention(continuous_api: ModuleType, patches: Patches) -> None:
    owner = attribute(continuous_api, "ContinuousBatchingManager", type)
    own = attribute(owner, "switch_to_cb_friendly_attn", FunctionType)
    parameters_of(own, "self", "model", "auto_switch_to_flash")
    parameters_of(attribute(owner, "stop", FunctionType), "self")

    @wrap(own)
    def switch_to_cb_friendly_attn(self, model, auto_switch_to_flash=True):
        if not (auto_switch_to_flash and _suits(model)):
            return own(self, model, auto_switch_to_flash)
        _register(patches)
        before = model.config._attn_implementation
        model.set_attn_implementation(ATTENTION)
        self._original_attn_impl = before  # which `stop` sets again

    patches.set(owner, "switch_to_cb_friendly_attn", switch_to_cb_friendly_attn)


def _decode(initialization: ModuleType, patches: Patches) -> None:
    own = attribute(initialization, "ensure_decode_fast_path_is_available", FunctionType)
    parameters_of(own, "config", "cb_config", "user_requested")
    types = attribute(initialization, "ATTN_TYPE_TO_ALLOCATOR", dict)
    group = attribute(initialization, "group_layers_by_attn_type", FunctionType)

    @wrap(own)
    def ensure_decode_fast_path_is_available(config, cb_config, user_requested):
        takes_tables = config._attn_implementation == ATTENTION and all(
            types[kind].supports_block_table for kind in group(config)
        )
        if not takes_tables:
            own(config, cb_config, user_requested)

    patches.rebind(own, ensure_decode_fast_path_is_available)


def _pages(full_attention: ModuleType, patches: Patches) -> None:
    """Pages of a layer become a tensor of their own. transformers has the keys' overlap the values', a page apart."""
    owner = attribute(full_attention, "FullAttentionCacheAllocator", type)
    own_views = attribute(owner, "register_cache_tensor", FunctionType)
    own_table = attribute(owner, "fill_block_table", FunctionType)
    parameters_of(own_table, "self", "request_id", "past_length", "query_length", "block_table")

    @wrap(own_views)
    def register_cache_tensor(self, *args, **kwargs):
        own_views(self, *args, **kwargs)
        if self.cache_tensor.device.type != "aule":
            return
        rows = self.block_physical_stride  # of a block, which has a page of keys and one of values for each layer
        pages = self.cache_tensor.view(-1, rows, self.num_key_value_heads, self.head_dim)
        pages = pages.unflatten(1, (-1, self.tokens_per_page))
        for i, layer in enumerate(self.layer_indices):
            self._kv_page_views[layer] = (pages[:, 2 * i], pages[:, 2 * i + 1])

    @wrap(own_table)
    def fill_block_table(self, request_id, past_length, query_length, block_table):
        if self.cache_tensor.device.type != "aule":
            return own_table(self, request_id, past_length, query_length, block_table)
        blocks = torch.tensor(self.block_table[request_id], dtype=block_table.dtype)
        block_table[: len(blocks)].copy_(blocks, non_blocking=True)

    patches.set(owner, "register_cache_tensor", register_cache_tensor)
    patches.set(owner, "fill_block_table", fill_block_table)


def _padding(input_outputs: ModuleType, patches: Patches) -> None:
    """A step that is padded for a graph has sequences of no tokens, after -1 others, in page -1."""
    owner = attribute(input_outputs, "ContinuousBatchingIOs", type)
    own = attribute(owner, "prepare_batch_tensors", FunctionType)
    parameters_of(own, "self", "requests_in_batch", "use_padding")
    parameters_of(attribute(owner, "_get_num_sequences", FunctionType), "self", "use_padding")

    @wrap(own)
    def prepare_batch_tensors(self, *args, **kwargs):
        own(self, *args, **kwargs)
        if not self.use_block_table or self.config._attn_implementation != ATTENTION:
            return
        there, all_of_them = self.num_request_in_batch, self._get_num_sequences(use_padding=True)
        if all_of_them > there:  # they become sequences of one token, in the sector where padding is written
            for ends in self.cumulative_seqlens_k.values():
                lengths = torch.arange(1, all_of_them - there + 1, dtype=ends.dtype, device=ends.device)
                ends[there + 1 : all_of_them + 1] = ends[there] + lengths
            for allocator in self.cache.cache_allocators.values():
                self.block_table[allocator.index, there:all_of_them].fill_(allocator.blocks_per_sector)

    patches.set(owner, "prepare_batch_tensors", prepare_batch_tensors)


def _graphs(utils: ModuleType, patches: Patches) -> None:
    if "aule" in attribute(utils, "DEVICE_TYPE_TO_GRAPH_NAME", dict):
        raise NotAsExpected("not needed: this version knows the device's graphs")
    name, pools, context = (
        attribute(utils, function, FunctionType)
        for function in ("get_accelerator_graph_name", "get_memory_pools", "memory_pool_context")
    )
    parameters_of(context, "mem_pool")

    @wrap(name)
    def get_accelerator_graph_name():
        return "Graph" if aule_is_default() else name()

    @wrap(pools)
    def get_memory_pools():
        return (None, torch.aule.graph_pool_handle()) if aule_is_default() else pools()

    @wrap(context)
    def memory_pool_context(mem_pool):
        return nullcontext() if mem_pool is None else context(mem_pool)  # a run before the capture needs no pool

    patches.rebind(name, get_accelerator_graph_name)
    patches.rebind(pools, get_memory_pools)
    patches.rebind(context, memory_pool_context)


PARTS = "transformers.generation.continuous_batching"

HOOKS = [
    Hook(
        "transformers", "batching_kernels", "transformers.modeling_flash_attention_utils",
        f'the attention "{ATTENTION}" is made of kernels of the device', _kernels,
    ),
    Hook(
        "transformers", "batching_attention", f"{PARTS}.continuous_api",
        "continuous batching on aule reads its cache by kernels of the device, without masks", _attention,
    ),
    Hook(
        "transformers", "batching_decode", f"{PARTS}.initialization",
        "steps of continuous batching with one token of each sequence go by tables of pages", _decode,
    ),
    Hook(
        "transformers", "batching_pages", f"{PARTS}.cache_allocators.full_attention",
        "the pages of a layer's keys and those of its values are tensors that share no element", _pages,
    ),
    Hook(
        "transformers", "batching_padding", f"{PARTS}.input_outputs",
        "sequences that only fill a step for a graph have a place in the cache", _padding,
    ),
    Hook(
        "transformers", "batching_graphs", f"{PARTS}.utils",
        "continuous batching can record its steps as graphs of aule", _graphs, chooses_device=True,
    ),
]  # fmt: skip
