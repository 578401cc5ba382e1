"""The device as one object, under the names that the package aule-attention has: :class:`Aule`, :class:`GpuTensor`."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from torch_aule import _C
from torch_aule.attention import active_attention_variants, cpu, flash_attention, window_sides
from torch_aule.attention.rotary import turn_neighbours
from torch_aule.errors import AuleError, InvalidShapeError
from torch_aule.indices import DeviceLike, checked_index

__all__ = ["Aule", "GpuTensor"]

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _dtype_of(dtype: Any) -> torch.dtype:
    """A dtype of torch from one of torch or NumPy, or a name."""
    if not isinstance(dtype, torch.dtype):
        name = getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
        dtype = getattr(torch, name, None)
    if dtype not in _DTYPES:
        raise TypeError(f"Aule.tensor: expected dtype float32, float16 or bfloat16, but got {dtype}")
    return dtype


class GpuTensor:
    """A tensor on the device; :meth:`Aule.tensor` makes one.

    Parameters
    ----------
    tensor : torch.Tensor
        What it holds.

    Attributes
    ----------
    shape : tuple of int
        ``(batch, heads, seq, dim)``.
    dtype : torch.dtype
        float32, float16 or bfloat16.
    """

    def __init__(self, tensor: torch.Tensor):
        self._tensor: torch.Tensor | None = tensor
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype

    @property
    def tensor(self) -> torch.Tensor:
        """The torch tensor itself, for everything else that torch does."""
        if self._tensor is None:
            raise AuleError("GpuTensor: its memory was given back (destroy, clear_tensors or close)")
        return self._tensor

    def upload(self, data: Any) -> None:
        """Copy an array to the device.

        Parameters
        ----------
        data : numpy.ndarray or torch.Tensor
            Of the same shape; other dtypes are converted.

        Raises
        ------
        InvalidShapeError
            If the shape differs.
        AuleError
            If the memory was given back.
        """
        source = torch.as_tensor(data)
        if tuple(source.shape) != self.shape:
            raise InvalidShapeError(
                f"GpuTensor.upload: expected data of shape {self.shape}, but got {tuple(source.shape)}"
            )
        self.tensor.copy_(source)

    def download(self):
        """A NumPy array with the values; float32 for bfloat16, which NumPy lacks."""
        host = self.tensor.cpu()
        return (host.float() if host.dtype is torch.bfloat16 else host).numpy()

    def destroy(self) -> None:
        """Give the memory back. A second call does nothing."""
        self._tensor = None

    def __repr__(self) -> str:
        where = "destroyed" if self._tensor is None else str(self._tensor.device)
        return f"GpuTensor(shape={self.shape}, dtype={self.dtype}, {where})"


def _is_array(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "numpy" and hasattr(value, "__array_interface__")


class Aule:
    """Attention on one device, over arrays or over tensors that stay there; a context manager.

    A thin layer over torch tensors: what this class makes can be mixed with everything that torch does. Without a
    Vulkan device the CPU computes, and the first object warns "Falling back to CPU simulation backend".

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    RuntimeError
        If there are devices, but not this one.

    Examples
    --------
    >>> with torch_aule.Aule() as aule:
    ...     q, k, v, out = (aule.tensor((1, 8, 512, 64)) for _ in range(4))
    ...     for tensor, array in zip((q, k, v), arrays):
    ...         tensor.upload(array)
    ...     aule.attention_gpu(q, k, v, out, causal=True)
    ...     result = out.download()
    """

    def __init__(self, device: DeviceLike = None):
        self._tensors: weakref.WeakSet[GpuTensor] = weakref.WeakSet()
        self._closed = False
        if _C.device_count() == 0 and device is None:
            cpu.say_once(_C.unavailable_reason())
            self._device = torch.device("cpu")
        else:
            self._device = torch.device("aule", checked_index(device))

    def __enter__(self) -> Aule:
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def close(self) -> None:
        """Give all tensors back. What is called afterwards raises :class:`AuleError`; a second call does nothing."""
        self.clear_tensors()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise AuleError("Aule: this object was closed")

    @property
    def _properties(self):
        return None if self._device.type == "cpu" else torch.aule.get_device_properties(self._device)

    @property
    def device_name(self) -> str:
        """The device's name as its driver tells it, or "CPU"."""
        properties = self._properties
        return "CPU" if properties is None else properties.name

    @property
    def vendor(self) -> str:
        """``"amd"``, ``"nvidia"``, ``"intel"``, ``"apple"`` or ``"other"``, as which software devices count."""
        properties = self._properties
        return "other" if properties is None else properties.vendor

    @property
    def is_amd_optimized(self) -> bool:
        """Whether the measured shapes and paths for AMD serve: on AMD's GPUs."""
        return self.vendor == "amd"

    @property
    def fp16_supported(self) -> bool:
        """Whether kernels compute in float16; tensors may be float16 everywhere."""
        properties = self._properties
        return properties is not None and bool(properties.float16)

    @property
    def subgroup_size(self) -> int:
        """Invocations of a subgroup; 0 on the CPU."""
        properties = self._properties
        return 0 if properties is None else properties.subgroup_size

    @property
    def shader_variant(self) -> str:
        """The family of kernels of a float16 forward of head size 64: see ``active_attention_variants``."""
        return self._variants()[0]

    @property
    def available_shader_variants(self) -> list[str]:
        """All families that serve a pass of float16 attention, and that of every dtype: see docs/use/attention.md."""
        return self._variants()[1]

    def _variants(self) -> tuple[str, list[str]]:
        if self._device.type == "cpu":
            return "cpu", ["cpu"]
        passes = active_attention_variants(64, device=self._device)
        return passes["forward"], sorted({*passes.values(), "simt"})

    def get_device_info(self) -> dict:
        """The device in one dict.

        Returns
        -------
        dict
            ``device_name``, ``vendor``, ``amd_optimized``, ``fp16_supported``, ``subgroup_size``, ``shader_variant``
            and ``available_variants``: the properties of this class.
        """
        self._check_open()
        return {
            "device_name": self.device_name,
            "vendor": self.vendor,
            "amd_optimized": self.is_amd_optimized,
            "fp16_supported": self.fp16_supported,
            "subgroup_size": self.subgroup_size,
            "shader_variant": self.shader_variant,
            "available_variants": self.available_shader_variants,
        }

    @property
    def supports_backward(self) -> bool:
        """True: every device has the backward pass."""
        return True

    @property
    def tensor_count(self) -> int:
        """Tensors that this object made and that still have memory."""
        return sum(t._tensor is not None for t in self._tensors)

    def clear_tensors(self) -> None:
        """Give the memory of all tensors back, also of those that a program still holds."""
        for tensor in list(self._tensors):
            tensor.destroy()
        self._tensors.clear()

    def tensor(self, shape: Sequence[int], dtype: Any = torch.float32) -> GpuTensor:
        """A tensor of zeros on the device, of any head size.

        Parameters
        ----------
        shape : sequence of int
            ``(batch, heads, seq, dim)``.
        dtype : torch.dtype, numpy.dtype or str, default torch.float32
            float32, float16 or bfloat16.

        Returns
        -------
        GpuTensor
            Counted in :attr:`tensor_count` until it is destroyed or forgotten.

        Raises
        ------
        InvalidShapeError
            If `shape` has not four sizes of at least 0.
        TypeError
            For another dtype.
        OutOfMemoryError
            If the device has no room.
        """
        self._check_open()
        shape = tuple(int(size) for size in shape)
        if len(shape) != 4 or min(shape) < 0:
            raise InvalidShapeError(f"Aule.tensor: expected shape of four sizes (batch, heads, seq, dim), got {shape}")
        made = GpuTensor(torch.zeros(shape, dtype=_dtype_of(dtype), device=self._device))
        self._tensors.add(made)
        return made

    def _operand(self, function: str, name: str, value: Any, arrays: bool) -> torch.Tensor:
        """A tensor on the device from a GpuTensor or, in functions that copy, from an array in host memory."""
        if isinstance(value, GpuTensor):
            if value.tensor.device != self._device:
                raise AuleError(f"{function}: expected {name} on {self._device}, but it is on {value.tensor.device}")
            return value.tensor
        if not arrays or not (_is_array(value) or isinstance(value, torch.Tensor)):
            wanted = "a numpy.ndarray" if arrays else "a GpuTensor of Aule.tensor()"
            raise TypeError(f"{function}: expected {name} to be {wanted}, but got {type(value).__name__}")
        value = torch.as_tensor(value).detach()
        if value.dim() != 4:
            raise InvalidShapeError(
                f"{function}: expected {name} of shape [batch, heads, seq, dim], but got {list(value.shape)}"
            )
        return value.to(self._device, torch.float32 if value.dtype is torch.float64 else value.dtype)

    def _turned(self, function: str, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        tables = []
        for name, table in (("rot_cos", cos), ("rot_sin", sin)):
            if table.dim() < 2 or table.numel() != table.size(-2) * table.size(-1):
                raise InvalidShapeError(f"{function}: expected {name} [seq, dim / 2], but got {list(table.shape)}")
            tables.append(table.reshape(table.shape[-2:]))
            if 2 * table.size(-1) > x.size(-1) or table.size(-2) < x.size(-2):
                raise InvalidShapeError(
                    f"{function}: expected {name} of at least {x.size(-2)} rows and at most {x.size(-1) // 2} columns, "
                    f"but got {list(tables[-1].shape)}"
                )
        if tables[0].shape != tables[1].shape:
            raise InvalidShapeError(f"{function}: expected rot_sin of shape {list(tables[0].shape)} like rot_cos")
        return turn_neighbours(x, *tables)

    def _rotated(self, function: str, q, k, rot_cos, rot_sin, arrays: bool):
        if (rot_cos is None) != (rot_sin is None):
            raise TypeError(f"{function}: expected both of rot_cos and rot_sin, or none")
        if rot_cos is None:
            return q, k
        tables = []
        for name, table in (("rot_cos", rot_cos), ("rot_sin", rot_sin)):
            if arrays and not isinstance(table, GpuTensor):
                table = torch.as_tensor(table)  # of two dimensions or more, the first ones 1
                tables.append(table.to(self._device, torch.float32))
            else:
                tables.append(self._operand(function, name, table, arrays=False))
        return self._turned(function, q, *tables), self._turned(function, k, *tables)

    @torch.no_grad()
    def attention_gpu(
        self,
        q: GpuTensor,
        k: GpuTensor,
        v: GpuTensor,
        out: GpuTensor,
        rot_cos: GpuTensor | None = None,
        rot_sin: GpuTensor | None = None,
        causal: bool = True,
        window_size: int = -1,
    ) -> None:
        """Attention from tensors on the device into a tensor on the device; nothing is copied to or from the host.

        The call returns when the work is recorded; :meth:`GpuTensor.download` waits for it.

        Parameters
        ----------
        q, k, v : GpuTensor
            As :func:`torch_aule.flash_attention` takes them: lengths and heads of keys may differ from the queries'.
        out : GpuTensor
            ``[batch, heads, seq_q, dim of v]``, which overlaps no operand.
        rot_cos, rot_sin : GpuTensor, optional
            Cosines and sines, ``[1, 1, seq, dim / 2]``, by which queries and keys are turned first: neighbours of a
            row are a pair, as RoFormer has them.
        causal : bool, default True
            Query ``i`` sees keys ``j <= i``.
        window_size : int, default -1
            Keys that a query sees: with `causal` the last ones up to its own, else half on each side; -1: all.

        Raises
        ------
        InvalidShapeError, TypeError
            For arguments that do not fit together; nothing has been launched then.
        AuleError
            If this object was closed, or a tensor was destroyed.
        """
        self._check_open()
        name = "Aule.attention_gpu"
        named = [("q", q), ("k", k), ("v", v), ("out", out)]
        query, key, value, result = (self._operand(name, n, t, arrays=False) for n, t in named)
        expected = (*query.shape[:-1], value.size(-1))
        if result.shape != expected:
            raise InvalidShapeError(f"{name}: expected out of shape {list(expected)}, but got {list(result.shape)}")
        if result.dtype is not query.dtype:
            raise TypeError(f"{name}: expected out of dtype {query.dtype} like q, but got {result.dtype}")
        sides = window_sides(name, window_size, causal)
        query, key = self._rotated(name, query, key, rot_cos, rot_sin, arrays=False)
        flash_attention(query, key, value, causal=causal, window_size=sides, out=result)

    @torch.no_grad()
    def attention(self, query, key, value, rot_cos=None, rot_sin=None, causal: bool = True, window_size: int = -1):
        """Attention over arrays: uploads them, computes, and downloads the result.

        Parameters
        ----------
        query, key, value : numpy.ndarray
            ``[batch, heads, seq, dim]``; float32 or float16, float64 is computed in float32.
        rot_cos, rot_sin : numpy.ndarray, optional
            As for :meth:`attention_gpu`, or ``[seq, dim / 2]``.
        causal : bool, default True
            As for :meth:`attention_gpu`.
        window_size : int, default -1
            As for :meth:`attention_gpu`.

        Returns
        -------
        numpy.ndarray
            ``[batch, heads, seq_q, dim of value]``.

        Raises
        ------
        InvalidShapeError, TypeError, AuleError
            As :meth:`attention_gpu`.
        """
        return self._forward("Aule.attention", query, key, value, rot_cos, rot_sin, causal, window_size)[0]

    @torch.no_grad()
    def attention_forward_with_lse(self, query, key, value, causal: bool = True):
        """Attention over arrays, with what :meth:`attention_backward` takes.

        Parameters
        ----------
        query, key, value : numpy.ndarray
            As for :meth:`attention`.
        causal : bool, default True
            As for :meth:`attention`.

        Returns
        -------
        output : numpy.ndarray
            ``[batch, heads, seq_q, dim of value]``.
        lse : numpy.ndarray
            Log-sum-exp of each row of scores, float32 ``[batch, heads, seq_q]``.

        Raises
        ------
        InvalidShapeError, TypeError, AuleError
            As :meth:`attention`.
        """
        return self._forward("Aule.attention_forward_with_lse", query, key, value, None, None, causal, -1)

    def _forward(self, name, query, key, value, rot_cos, rot_sin, causal, window_size):
        self._check_open()
        named = (("query", query), ("key", key), ("value", value))
        q, k, v = (self._operand(name, n, t, arrays=True) for n, t in named)
        q, k = self._rotated(name, q, k, rot_cos, rot_sin, arrays=True)
        sides = window_sides(name, window_size, causal)
        results = flash_attention(q, k, v, causal=causal, window_size=sides, return_lse=True)
        return tuple(t.cpu().numpy() for t in results)

    def attention_backward(self, query, key, value, output, grad_output, lse, causal: bool = True):
        """Gradients of attention over arrays.

        Parameters
        ----------
        query, key, value : numpy.ndarray
            What the forward took.
        output, lse : numpy.ndarray
            What :meth:`attention_forward_with_lse` gave for them.
        grad_output : numpy.ndarray
            The gradient of `output`, of its shape.
        causal : bool, default True
            As in the forward.

        Returns
        -------
        grad_query, grad_key, grad_value : numpy.ndarray
            Of the shapes of `query`, `key` and `value`.

        Raises
        ------
        InvalidShapeError
            If `output`, `grad_output` or `lse` has not the shape that the forward gives.
        TypeError, AuleError
            As :meth:`attention`.
        """
        self._check_open()
        name = "Aule.attention_backward"
        named = (("query", query), ("key", key), ("value", value), ("output", output), ("grad_output", grad_output))
        q, k, v, out, grad = (self._operand(name, n, t, arrays=True) for n, t in named)
        lse = torch.as_tensor(lse).to(self._device, torch.float32)
        shape = (*q.shape[:-1], v.size(-1))
        for what, tensor, wanted in (("output", out, shape), ("grad_output", grad, shape), ("lse", lse, shape[:-1])):
            if tensor.shape != wanted:
                raise InvalidShapeError(f"{name}: expected {what} of shape {list(wanted)}, got {list(tensor.shape)}")
        if self._device.type == "cpu":  # whose form has no backward of its own: autograd's, of the forward anew
            inputs = [t.requires_grad_() for t in (q, k, v)]
            with torch.enable_grad():
                again = flash_attention(inputs[0], inputs[1], inputs[2], causal=causal)
            grads = torch.autograd.grad(again, inputs, grad.to(again.dtype))
        else:
            philox = [torch.zeros((), dtype=torch.int64) for _ in range(2)]  # of dropout, which there is none of
            with torch.no_grad():
                grads = torch.ops.aule.flash_attn_bwd(grad, q, k, v, out, lse, *philox, is_causal=causal)[:3]
        return tuple(t.cpu().numpy() for t in grads)
