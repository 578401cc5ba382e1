"""A stand-in for hqq 0.2.8: the layer, its numbers of 4 and 8 bits, and how it comes to a device."""

import copy

import torch


class Quantizer:
    @staticmethod
    @torch.inference_mode()
    def quantize(w, nbits, group_size, axis, compute_dtype, view_as_float=False, **more):
        shape, w = w.shape, w.float()
        w = w.reshape(-1, group_size) if axis == 1 else w.reshape(group_size, -1)
        least, most = w.amin(axis, keepdim=True), w.amax(axis, keepdim=True)
        scale = (2**nbits - 1) / (most - least)
        zero = -least * scale
        q = (w * scale + zero).round().clamp(0, 2**nbits - 1)
        zero = (q - w * scale).mean(axis, keepdim=True)  # no longer whole numbers
        meta = {"nbits": nbits, "group_size": group_size, "shape": shape, "scale": 1 / scale, "zero": zero,
                "axis": axis, "packing": f"{nbits}bit_u8", "view_as_float": view_as_float}  # fmt: skip
        q, half = q.to(torch.uint8), len(q) // 2
        q = q[:half] << 4 | q[half:] if nbits == 4 else q
        return q.view(compute_dtype) if view_as_float else q, meta

    @staticmethod
    def dequantize(q, meta):
        q = q.view(torch.uint8) if meta["view_as_float"] else q
        q = torch.cat((q >> 4, q & 15)) if meta["nbits"] == 4 else q
        return ((q.to(meta["compute_dtype"]) - meta["zero"]) * meta["scale"]).reshape(meta["shape"])


class HQQLinear(torch.nn.Module):
    def __init__(self, linear_layer, quant_config, del_orig=True, compute_dtype=torch.float16, device="cuda",
                 initialize=True):  # fmt: skip
        super().__init__()
        HQQLinear.forward = HQQLinear.forward_pytorch  # as the package chooses its backend
        self.W_q = self.meta = self.bias = None
        self.device, self.compute_dtype, self.quant_config = device, compute_dtype, copy.deepcopy(quant_config)
        if initialize:
            self.quantize(linear_layer.weight.data, **self.quant_config)
            bias = linear_layer.bias
            self.bias = None if bias is None else bias.detach().to(device, compute_dtype)

    @classmethod
    def from_weights(cls, weight, bias, quant_config, compute_dtype=torch.float16, device="cuda", del_orig=True):
        layer = torch.nn.Linear(1, 1)
        layer.weight.data, layer.bias = weight, bias
        return cls(layer, quant_config, del_orig, compute_dtype, device)

    def quantize(self, W, weight_quant_params, scale_quant_params=None, zero_quant_params=None):  # noqa: N803
        self.in_features, self.out_features = W.t().shape
        self.W_q, self.meta = Quantizer.quantize(W, compute_dtype=self.compute_dtype, **weight_quant_params)
        self.meta.update({"quant_scale": False, "quant_zero": False})
        self.cuda(self.device)

    def cuda(self, device):
        self.meta["compute_dtype"] = self.compute_dtype
        for name in ("scale", "zero"):
            self.meta[name] = self.meta[name].to(device, self.compute_dtype)
        if self.bias is not None:
            self.bias = self.bias.to(device, self.compute_dtype)
        self.W_q = torch.nn.Parameter(self.W_q.to(device), requires_grad=False)
        self.device = device
        return self

    def state_dict(self, *args, **kwargs):
        state = {"W_q": self.W_q, **self.meta}
        if self.bias is not None:
            state["bias"] = self.bias
        if "destination" in kwargs and "prefix" in kwargs:
            kwargs["destination"].update({kwargs["prefix"] + key: value for key, value in state.items()})
        return state

    def load_state_dict(self, state_dict, strict=True, assign=False):
        self.W_q, self.bias = state_dict.pop("W_q"), state_dict.pop("bias", None)
        self.meta = dict(state_dict)
        self.cuda(self.device)
        self.in_features, self.out_features = self.meta["shape"][::-1]

    def dequantize(self):
        return Quantizer.dequantize(self.W_q, self.meta)

    def forward_pytorch(self, x):
        out = x @ self.dequantize().t()
        return out if self.bias is None else out + self.bias
