"""Both classes of torchao 0.18 that the hooks serve: what they hold, and the tables of what F.linear does with them."""

from enum import Enum

import torch

LINEAR = torch.nn.functional.linear, torch.ops.aten.linear.default


class MappingType(Enum):
    SYMMETRIC = 0
    ASYMMETRIC = 1


def choose_qparams_affine(w, mapping_type, block_size, dtype, low, high, eps, scale_dtype, zero_point_dtype):
    groups = w.reshape(w.shape[0], -1, block_size[1])
    least, most = groups.amin(2).clamp(max=0), groups.amax(2).clamp(min=0)
    scale = ((most - least) / (high - low)).clamp(min=eps)
    return scale, (low - (least / scale).round()).clamp(low, high).to(zero_point_dtype)


def quantize_affine(w, block_size, scale, zero_point, dtype, low, high):
    scale, zero_point = (t.repeat_interleave(block_size[1], 1) for t in (scale, zero_point))
    return ((w / scale).round() + zero_point).clamp(low, high).to(dtype)


class Base(torch.Tensor):
    _TORCH_FN_TABLE, _ATEN_OP_TABLE = {}, {}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in cls._TORCH_FN_TABLE.get(cls, {}):
            return cls._TORCH_FN_TABLE[cls][func](func, types, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in cls._ATEN_OP_TABLE.get(cls, {}):
            return cls._ATEN_OP_TABLE[cls][func](func, types, args, kwargs or {})
        raise NotImplementedError(func)


class Int4PlainInt32Tensor(Base):
    def __new__(cls, qdata, scale, zero_point, block_size, shape, act_pre_scale=None):
        return torch.Tensor._make_wrapper_subclass(cls, shape, device=qdata.device, dtype=scale.dtype)

    def __init__(self, qdata, scale, zero_point, block_size, shape, act_pre_scale=None):
        self.qdata, self.scale, self.zero_point = qdata, scale, zero_point
        self.block_size, self.act_pre_scale = block_size, act_pre_scale

    @classmethod
    def from_hp(cls, w, block_size):
        raise NotImplementedError(f"not for {w.device.type}")


class Int8Tensor(Base):
    def __new__(cls, qdata, scale, block_size, dtype, **more):
        return torch.Tensor._make_wrapper_subclass(cls, qdata.shape, device=qdata.device, dtype=dtype)

    def __init__(
        self, qdata, scale, block_size, dtype, zero_point=None, act_quant_scale=None, act_quant_zero_point=None,
        act_pre_scale=None, act_quant_kwargs=None, reduce_range=False,
    ):  # fmt: skip
        self.qdata, self.scale, self.block_size, self.zero_point = qdata, scale, block_size, zero_point
        self.act_pre_scale, self.act_quant_kwargs = act_pre_scale, act_quant_kwargs


def _own(func, types, args, kwargs):
    raise NotImplementedError("torchao's own way")


for _cls in (Int4PlainInt32Tensor, Int8Tensor):
    Base._TORCH_FN_TABLE[_cls], Base._ATEN_OP_TABLE[_cls] = {LINEAR[0]: _own}, {LINEAR[1]: _own}
