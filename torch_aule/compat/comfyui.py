"""Nodes for ComfyUI: attention by this package, for all models or for one.

A folder of ``custom_nodes`` adds them whose ``__init__.py`` imports ``NODE_CLASS_MAPPINGS`` and
``NODE_DISPLAY_NAME_MAPPINGS`` from here. Nothing of ComfyUI is imported.
"""

from __future__ import annotations

import torch

from torch_aule.attention.rotary import turn_neighbours
from torch_aule.compat import install

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS", "AuleInfo", "AuleInstall", "AulePatchModel",
           "AuleUninstall"]  # fmt: skip

_CATEGORY = "aule"


class _Node:
    """The members that ComfyUI's loader asks of a node."""

    CATEGORY = _CATEGORY
    RETURN_TYPES: tuple[str, ...] = ()

    @classmethod
    def INPUT_TYPES(cls) -> dict:
        return {"required": {}}

    @classmethod
    def IS_CHANGED(cls, **inputs) -> float:
        return float("nan")  # equal to nothing: what the node does to the process is not cached


class AuleInstall(_Node):
    """Aule Enable: attention of all models goes through this package (:func:`torch_aule.install`)."""

    FUNCTION = "install"
    OUTPUT_NODE = True

    def install(self) -> tuple:
        """Install. A node that changes the process and has no outputs."""
        install.install(verbose=True)
        return ()


class AuleUninstall(_Node):
    """Aule Disable: attention is PyTorch's own again (:func:`torch_aule.uninstall`)."""

    FUNCTION = "uninstall"
    OUTPUT_NODE = True

    def uninstall(self) -> tuple:
        """Uninstall. A node that changes the process and has no outputs."""
        install.uninstall()
        return ()


class AuleInfo(_Node):
    """Aule Info: what computes attention, as text."""

    FUNCTION = "info"
    RETURN_TYPES = ("STRING",)

    def info(self) -> tuple[str]:
        """One line for each backend."""
        lines = []
        for name, row in install.get_backend_info().items():
            state = "in use" if row["installed"] else "available" if row["available"] else "not available"
            lines.append(f"{name}: {state}, {row['device'] or 'no device'} ({row['description']})")
        return ("\n".join(lines),)


def _rotary_tables(tokens: int, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies = 10000.0 ** (-torch.arange(0, size - 1, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), frequencies)
    return angles.cos().float().to(device), angles.sin().float().to(device)


class _Attention:
    """ComfyUI's ``optimized_attention_override``: called in place of the function `own` that it would call itself."""

    def __init__(self, causal: bool, use_rope: bool):
        self.causal = causal
        self.use_rope = use_rope

    def __call__(
        self, own, q, k, v, heads, mask=None, attn_precision=None, skip_reshape=False, skip_output_reshape=False, **more
    ):
        # attn_precision asks for float32 scores, which kernels always have.
        if not skip_reshape:
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
        if self.use_rope:
            tables = _rotary_tables(max(q.size(-2), k.size(-2)), q.size(-1), q.device)
            q, k = (turn_neighbours(t, *tables) for t in (q, k))
        if mask is not None:  # [queries, keys], or with a batch, or with heads too
            mask = mask.reshape((1,) * (2 - mask.dim()) + tuple(mask.shape))
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask
        causal = self.causal
        if causal and mask is not None:
            seen = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
            mask = mask & seen if mask.dtype is torch.bool else mask.masked_fill(~seen, float("-inf"))
            causal = False
        out = install.attend(
            install.get_available_backends()[0],
            q,
            k,
            v,
            mask,
            0.0,
            causal,
            more.get("scale"),
            more.get("enable_gqa", False),
        )
        return out if skip_output_reshape else out.transpose(1, 2).flatten(2)


class AulePatchModel(_Node):
    """Aule Patch Model: attention of this model alone goes through this package.

    The node gives a clone of the model back; the model that it took keeps its attention.
    """

    FUNCTION = "patch"
    RETURN_TYPES = ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls) -> dict:
        """Names, types and defaults of the node's inputs."""
        switch = ("BOOLEAN", {"default": False})
        return {"required": {"model": ("MODEL",), "causal": switch, "use_rope": switch}}

    def patch(self, model, causal: bool = False, use_rope: bool = False) -> tuple:
        """Patch a clone of a model.

        Parameters
        ----------
        model : comfy.model_patcher.ModelPatcher
            Any model whose attention goes through ComfyUI's ``optimized_attention``.
        causal : bool, default False
            Query ``i`` sees keys ``j <= i``: for language models, not for diffusion.
        use_rope : bool, default False
            Turn queries and keys by their positions first, neighbours of a row as pairs, with the base 10000: for a
            model that does not turn them itself.

        Returns
        -------
        tuple
            The clone.
        """
        patched = model.clone()
        options = patched.model_options
        own = options.get("transformer_options", {})  # maybe shared with the original
        options["transformer_options"] = {**own, "optimized_attention_override": _Attention(causal, use_rope)}
        return (patched,)


NODE_CLASS_MAPPINGS = {
    "AuleInstall": AuleInstall,
    "AuleUninstall": AuleUninstall,
    "AuleInfo": AuleInfo,
    "AulePatchModel": AulePatchModel,
}
NODE_DISPLAY_NAME_MAPPINGS = {
    "AuleInstall": "Aule Enable",
    "AuleUninstall": "Aule Disable",
    "AuleInfo": "Aule Info",
    "AulePatchModel": "Aule Patch Model",
}
