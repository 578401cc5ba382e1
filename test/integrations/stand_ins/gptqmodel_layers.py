"""A stand-in for gptqmodel 7.7: its list of devices, and its GPTQ and AWQ layers in PyTorch's operators."""

from enum import Enum

import torch


class DEVICE(str, Enum):
    ALL = "all"
    CPU = "cpu"
    CUDA = "cuda"

    @classmethod
    def _missing_(cls, value):
        return super()._missing_(value)


class Layer(torch.nn.Module):
    def __init__(self, bits, group_size, sym, desc_act, in_features, out_features, bias=False, pack_dtype=torch.int32,
                 adapter=None, **more):  # fmt: skip
        super().__init__()
        self.bits, self.pack_dtype, self.adapter = bits, pack_dtype, adapter
        self.in_features, self.out_features = in_features, out_features
        self.group_size = in_features if group_size == -1 else group_size
        groups, word = in_features // self.group_size, 32 // bits
        first = (in_features // word, out_features) if self.GPTQ else (in_features, out_features // word)
        self.register_buffer("qweight", torch.zeros(first, dtype=pack_dtype))
        self.register_buffer("qzeros", torch.zeros(groups, out_features // word, dtype=pack_dtype))
        self.register_buffer("scales", torch.zeros(groups, out_features, dtype=torch.float16))
        if self.GPTQ:
            self.register_buffer("g_idx", torch.arange(in_features, dtype=torch.int32) // self.group_size)
        self.register_buffer("bias", torch.zeros(out_features, dtype=torch.float16) if bias else None)

    def post_init(self):
        pass

    def _numbers(self, words, dim):
        shifts = range(0, 32, self.bits)
        return torch.stack([words >> bit & 2**self.bits - 1 for bit in shifts], dim + 1).flatten(dim, dim + 1)


class TorchLinear(Layer):
    GPTQ = True
    _version = 1

    def qzero_format(self, format=None):
        self._version = format or self._version
        return self._version

    def post_init(self):
        super().post_init()

    def dequantize_weight(self):
        groups = self.g_idx.long()
        return self.scales[groups] * (self._numbers(self.qweight, 0) - self._numbers(self.qzeros, 1)[groups])

    def forward(self, x):
        out = x @ self.dequantize_weight().to(x.dtype)
        return out if self.bias is None else out + self.bias


class AwqTorchLinear(Layer):
    GPTQ = False

    def post_init(self):
        super().post_init()

    def _columns(self, words):
        q = self._numbers(words, 1)
        return q.unflatten(1, (-1, 8))[:, :, [0, 4, 1, 5, 2, 6, 3, 7]].flatten(1) if self.bits == 4 else q

    def dequantize_weight(self):
        scales, zeros = (t.repeat_interleave(self.group_size, 0) for t in (self.scales, self._columns(self.qzeros)))
        return (self._columns(self.qweight) - zeros) * scales

    def forward(self, x):
        out = x @ self.dequantize_weight().to(x.dtype)
        return out if self.bias is None else out + self.bias
