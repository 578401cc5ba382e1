"""Fewer kernels for a step: parts of a model's layers that run as one.

What is made one: the projections of queries, keys and values, those of gate and up with the activation behind them,
each with the RMSNorm before it; rotary positions with the write into the cache; a product with the residual that is
added to it. Weights are dense, or packed in a quantized format. A part is found by the names of its modules, is
compared with the module's own forward over random numbers, and is left out where the two differ, so that a module that
only looks alike keeps its own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from torch_aule.llm.cache import (
    PagedLayer,
    Rows,
    attend,
    current_layer,
    current_rows,
    paged_attention,
    seen_attention,
)
from torch_aule.llm.products import Norm, Product, products_of

if TYPE_CHECKING:
    from torch_aule.llm.engine import Engine

__all__ = ["Fusions"]

PROBE = 3  # tokens of the comparison
AT = 5  # where they stand
DRAWS = 5  # of random numbers, until a layer agrees
# Rows of a few hundred terms in another order, of numbers of these dtypes; another formula differs by about 1.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}
ACTIVATIONS: dict[str, Callable] = {"silu": F.silu, "gelu_tanh": partial(F.gelu, approximate="tanh")}
GROWING = {"dynamic", "longrope"}  # rotary angles that change with the length of the text


def _agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    most, scale = (t.float().abs().max().item() for t in (a.float() - b.float(), b))
    return 0 < scale < math.inf and most <= TOLERANCE.get(a.dtype, 6e-2) * scale


def _activation_of(function) -> str | None:
    """The name of an activation: the two forms of GELU differ by less than layers of float16 do."""
    x = torch.linspace(-8, 8, 129)
    try:
        own = function(x)
    except (RuntimeError, TypeError):  # it has weights on the device, or takes something else
        return None
    fitting = [name for name, known in ACTIVATIONS.items() if torch.allclose(known(x), own, rtol=1e-5, atol=1e-6)]
    return fitting[0] if fitting else None


def _one_product(module, dtype: torch.dtype) -> Product | None:
    products = products_of([module], dtype)
    return None if products is None else products[0]


def _last(product: Product | None, module, x: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
    """The last layer of a part, and what is added to it."""
    if product is not None:
        return product(x, residual=residual)
    out = module(x)
    return out if residual is None else residual + out


class Fusions:
    """The fused parts of a model. The model itself runs as before, except within :meth:`active`.

    Parameters
    ----------
    engine : Engine
        Of the model, whose caches the comparisons write to: their scratch page.
    max_len : int
        Rows of the tables of rotary angles.

    Attributes
    ----------
    counts : dict of str to int
        How many parts of each kind run fused.
    left_out : list of str
        Parts that were found, and differ from the module's own forward.
    need_positions : bool
        Whether the model computes angles from positions in steps too.
    """

    def __init__(self, engine: Engine, max_len: int):
        self.engine, self.model = engine, engine.model
        self.counts: dict[str, int] = {}
        self.left_out: list[str] = []
        self.need_positions = True
        self._forwards: dict[nn.Module, object] = {}
        self._attention: dict[nn.Module, _Attention] = {}
        self._gates: dict[nn.Module, _Gate] = {}
        self._norms: dict[nn.Module, Norm] = {}
        parameter = next(self.model.parameters())
        self.device = parameter.device
        if self.device.type != "aule":
            return
        self.cache = engine.probe_cache()
        with torch.no_grad():
            self._find_norms()
            self._mlps()
            self._attentions(max_len)
            self._layers()
        del self.cache

    def _found(self, kind: str, name: str, module: nn.Module, forward, agrees: bool) -> bool:
        if agrees:
            self._forwards[module] = forward
            self.counts[kind] = self.counts.get(kind, 0) + 1
        else:
            self.left_out.append(f"{kind} {name}")
        return agrees

    @contextmanager
    def active(self):
        """Inside, the model's modules run fused."""
        for module, forward in self._forwards.items():
            module.forward = forward
        try:
            yield
        finally:
            for module in self._forwards:
                del module.forward

    def _random(self, *shape, like: torch.Tensor) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float32).to(self.device, like.dtype)

    def _find_norms(self) -> None:
        for name, module in self.model.named_modules():
            weight = getattr(module, "weight", None)
            eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
            if not type(module).__name__.endswith("RMSNorm") or weight is None or weight.dim() != 1 or eps is None:
                continue
            dtype = self.model.dtype if self.model.dtype in TOLERANCE else torch.float32
            x = self._random(PROBE, weight.numel(), like=torch.empty(0, dtype=dtype))
            try:
                own = module(x)
            except TypeError:  # it takes more than one tensor
                continue
            choices = (weight.data, 1.0 + weight.data.float())  # Gemma keeps weights less one
            forwards = [_norm(w, eps) for w in choices]
            agreeing = [i for i, forward in enumerate(forwards) if _agree(forward(x), own)]
            forward = forwards[agreeing[0]] if agreeing else None
            if self._found("rms_norm", name, module, forward, bool(agreeing)):
                self._norms[module] = Norm(choices[agreeing[0]].float(), eps)

    def _mlps(self) -> None:
        for name, module in self.model.named_modules():
            parts: list = [getattr(module, part, None) for part in ("gate_proj", "up_proj", "down_proj")]
            if any(not isinstance(part, nn.Module) for part in parts) or not hasattr(module, "act_fn"):
                continue
            width = getattr(parts[0], "in_features", None)
            if width is None:
                continue
            x = self._random(1, PROBE, width, like=torch.empty(0, dtype=self.model.dtype))
            activation = _activation_of(module.act_fn)
            gate = None if activation is None else _Gate(parts, activation, self.model.dtype)
            if self._found("gated_mlp", name, module, gate, gate is not None and _agree(gate(x), module(x))):
                assert gate is not None
                self._gates[module] = gate

    # Attention

    def _rotary(self, max_len: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Tables (cosines, sines) [max_len, head_dim] of all rotary embeddings of the model."""
        tables = []
        for module in self.model.modules():
            if not type(module).__name__.endswith("RotaryEmbedding"):
                continue
            kinds = getattr(module, "rope_type", None)
            kinds = set(kinds.values()) if isinstance(kinds, dict) else {kinds}
            if kinds & GROWING:
                continue
            x = torch.empty((1, 1, 1), dtype=self.model.dtype, device=self.device)
            positions = torch.arange(max_len, device=self.device)[None]
            kinds_of_layers = sorted(set(getattr(self.model.config.get_text_config(), "layer_types", None) or []))
            for kind in [(), *((k,) for k in kinds_of_layers)]:
                try:
                    cos, sin = module(x, positions, *kind)
                except (TypeError, ValueError, KeyError, AttributeError):
                    continue
                if cos.dim() == 3 and cos.shape == sin.shape:
                    tables.append((cos[0], sin[0]))
        return tables

    def _attentions(self, max_len: int) -> None:
        modules = {}
        for name, module in self.model.named_modules():
            index = getattr(module, "layer_idx", None)
            parts: list = [getattr(module, part, None) for part in ("q_proj", "k_proj", "v_proj", "o_proj")]
            if isinstance(index, int) and all(isinstance(part, nn.Module) for part in parts):
                modules[module] = (name, index, parts)
        tables = self._rotary(max_len) if modules else []
        if not tables:
            return
        given: dict[nn.Module, dict] = {}
        handles = [
            module.register_forward_pre_hook(lambda m, args, kwargs: given.__setitem__(m, kwargs), with_kwargs=True)
            for module in modules
        ]
        rows = self._scratch_rows()
        ids = torch.zeros((1, PROBE), dtype=torch.int64, device=self.device)
        try:
            with seen_attention() as seen:
                self.engine.forward(ids, rows, 1, cache=self.cache, fused=False)
        finally:
            for handle in handles:
                handle.remove()
        for module, (name, index, parts) in modules.items():
            position = given.get(module, {}).get("position_embeddings")
            if index not in seen or position is None:
                continue
            here = slice(AT, AT + PROBE)
            fitting = [t for t in tables if all(_agree(a[here], b[0]) for a, b in zip(t, position))]
            layer = self.cache.layers[index]
            if not fitting or not isinstance(layer, PagedLayer):
                continue
            fused = _Attention(module, index, parts, fitting[0], seen[index], self.model.dtype)
            x = self._random(1, PROBE, parts[0].in_features, like=torch.empty(0, dtype=self.model.dtype))
            if self._found("attention", name, module, fused, self._compare(module, fused, layer, x, given[module])):
                self._attention[module] = fused
        if len(self._attention) == len(self.engine.paged_layers):
            self._angles()
            self.need_positions = False

    def _angles(self) -> None:
        """Angles of a step are read from the tables: nobody wants those that the model would compute."""
        for module in self.model.modules():
            if type(module).__name__.endswith("RotaryEmbedding"):
                self._forwards[module] = _Angles(module)

    def _scratch_rows(self) -> Rows:
        return Rows(
            torch.full((1,), AT, dtype=torch.int32, device=self.device),
            torch.zeros((1, 1), dtype=torch.int32, device=self.device),
            PROBE,
        )

    def _compare(self, module, fused, layer: PagedLayer, x: torch.Tensor, given: dict) -> bool:
        """Whether both attend alike and put the same into the cache."""
        cache = self.cache
        results = []
        options = {name: value for name, value in given.items() if name != "hidden_states"}
        for forward in (module.forward, fused):
            with cache.at(self._scratch_rows()), paged_attention(self.model):
                out = forward(hidden_states=x, **options)[0]
            cached = (c[0, AT : AT + PROBE].clone() for c in (layer.key_cache, layer.value_cache))
            results.append((out, *cached))
        return all(_agree(b, a) for a, b in zip(*results))

    def _layers(self) -> None:
        """Layers of the form x + attention(norm(x)), then x + mlp(norm(x)), whose sums are made by the products."""
        names = ("input_layernorm", "self_attn", "post_attention_layernorm", "mlp")
        for name, module in self.model.named_modules():
            parts: list = [getattr(module, part, None) for part in names]
            attention = self._attention.get(parts[1]) if isinstance(parts[1], nn.Module) else None
            if any(not isinstance(part, nn.Module) for part in parts) or attention is None:
                continue
            if hasattr(module, "pre_feedforward_layernorm"):
                continue
            norms = [self._norms.get(parts[i]) for i in (0, 2)]
            fused = _Layer(parts, attention, self._gates.get(parts[3]), norms)
            # A token between two experts may go to either by a rounding, and such a draw does not count.
            agrees = any(self._same_layer(module, fused, attention) for _ in range(DRAWS))
            self._found("layer", name, module, fused, agrees)

    def _same_layer(self, module, fused: _Layer, attention: _Attention) -> bool:
        x = self._random(1, PROBE, attention.parts[0].in_features, like=torch.empty(0, dtype=self.model.dtype))
        cos, sin = attention.angles(AT, PROBE)
        cache = self.cache
        results = []
        for forward in (module.forward, fused):
            with cache.at(self._scratch_rows()), paged_attention(self.model), self.active():
                out = forward(x, position_embeddings=(cos, sin), **{self.engine.argument: cache})
            results.append(out)
        return isinstance(results[0], torch.Tensor) and _agree(results[1], results[0])


def _norm(weight: torch.Tensor, eps: float):
    def forward(hidden_states):
        return torch.ops.aten._fused_rms_norm(hidden_states, list(weight.shape), weight, eps)[0]

    return forward


class _Gate:
    """down(activation(gate(x)) * up(x)), all but the last product as one if the weights are understood."""

    def __init__(self, parts: list, activation: str, dtype: torch.dtype):
        self.gate, self.up, self.down = parts
        self.activation = activation
        self.first = products_of(parts[:2], dtype) or []
        self.last = _one_product(self.down, dtype)

    def __call__(self, x, residual: torch.Tensor | None = None, norm: Norm | None = None, own_norm=None):
        if len(self.first) == 1:
            inner = self.first[0](x, norm, self.activation)
        else:
            if self.first:
                gate, up = (product(x, norm) for product in self.first)
            else:
                x = x if own_norm is None else own_norm(x)
                gate, up = self.gate(x), self.up(x)
            inner = torch.ops.aule.gated_activation(gate, up, self.activation)
        return _last(self.last, self.down, inner, residual)


class _Attention:
    """Attention of a few tokens, whose keys are turned as they are written. Prompts take the module's own way."""

    def __init__(
        self,
        module,
        index: int,
        parts: list,
        table: tuple[torch.Tensor, torch.Tensor],
        given: dict,
        dtype: torch.dtype,
    ):
        self.module, self.index, self.parts, self.given, self.table = module, index, parts, given, table
        self.own = module.forward
        half = table[0].size(1) // 2
        twice = all(torch.equal(t[:, :half], t[:, half:]) for t in table)  # most models repeat the angles
        self.cos, self.sin = (t[:, :half].contiguous() if twice else t.contiguous() for t in table)
        self.size = module.head_dim
        self.norms = [getattr(module, name, None) for name in ("q_norm", "k_norm")]
        self.first = products_of(parts[:3], dtype)
        self.last = _one_product(parts[3], dtype)

    def angles(self, start: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The arguments of the module's own forward for these rows: [1, tokens, head_dim or half of it]."""
        cos, sin = (t[None, start : start + tokens] for t in self.table)
        return cos, sin

    def __call__(
        self,
        hidden_states,
        *args,
        residual: torch.Tensor | None = None,
        norm: Norm | None = None,
        own_norm=None,
        **kwargs,
    ):
        layer = current_layer(self.index)
        rows = layer.rows
        own_norm = own_norm if rows is None or rows.past is not None or self.first is None else None
        if own_norm is not None:
            hidden_states = own_norm(hidden_states)
        if rows is None or rows.past is not None:  # a prompt
            out, weights = self.own(hidden_states, *args, **kwargs)
            return (out if residual is None else residual + out), weights
        shape = (*hidden_states.shape[:2], -1, self.size)
        if self.first is None:
            q, k, v = (part(hidden_states).view(shape) for part in self.parts[:3])
        else:
            made = [t for product in self.first for t in product(hidden_states, norm).split(product.sizes, -1)]
            q, k, v = (t.view(shape) for t in made)
        if self.norms[0] is not None:
            q = self.norms[0](q)
        if self.norms[1] is not None:
            k = self.norms[1](k)
        q, rows.after = torch.ops.aule.kv_cache_append(
            k, v, layer.key_cache, layer.value_cache, rows.lengths, rows.table, q, self.cos, self.sin, False,
            layer.key_scale, layer.value_scale,
        )  # fmt: skip
        out = attend(layer, q.transpose(1, 2), None, None, **self.given)
        return _last(self.last, self.parts[3], out.flatten(2), residual), None


class _Angles:
    """A rotary embedding that computes for prompts alone."""

    def __init__(self, module):
        self.own = module.forward

    def __call__(self, *args, **kwargs):
        rows = current_rows()
        return self.own(*args, **kwargs) if rows is None or rows.past is not None else (None, None)


class _Layer:
    """A layer whose norms are computed and whose residuals are added by its products."""

    def __init__(self, parts: list, attention: _Attention, gate: _Gate | None, norms: list[Norm | None]):
        self.first, _, self.second, self.mlp = parts
        self.attention, self.gate, self.norms = attention, gate, norms

    def __call__(self, hidden_states, *args, **kwargs):
        norm, own = self.norms[0], self.first
        x = hidden_states if norm is not None else own(hidden_states)
        x, _ = self.attention(
            x, *args, residual=hidden_states, norm=norm, own_norm=own if norm is not None else None, **kwargs
        )
        norm, own = self.norms[1], self.second
        if self.gate is None:
            out = self.mlp(own(x))
            return x + (out[0] if isinstance(out, tuple) else out)
        if norm is None:
            return self.gate(own(x), residual=x)
        return self.gate(x, residual=x, norm=norm, own_norm=own)
