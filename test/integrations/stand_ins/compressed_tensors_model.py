"""What the hook for compressed-tensors 0.20 touches: the compressor of a model and the packing of numbers."""

import torch


def unpack_from_int32(value, num_bits, shape, packed_dim=1):
    value = value.transpose(0, 1) if packed_dim == 0 else value
    numbers = torch.stack([value >> bit & 2**num_bits - 1 for bit in range(0, 32, num_bits)], -1).flatten(-2)
    numbers = (numbers - 2 ** (num_bits - 1)).to(torch.int8)
    numbers = numbers.transpose(0, 1) if packed_dim == 0 else numbers
    return numbers[: shape[0], : shape[1]]


def decompress_module(module, format=None, leave_decompressed=True):
    if not hasattr(module, "weight_packed"):
        return
    n, groups = module.weight_scale.shape
    weight = unpack_from_int32(module.weight_packed.data, 4, (n, module.in_features)).float()
    scale = module.weight_scale.data
    if not module.quantization_scheme.weights.symmetric:
        zero = unpack_from_int32(module.weight_zero_point.data, 4, (n, groups), packed_dim=0)
        weight = weight - zero.repeat_interleave(module.in_features // groups, 1)
    weight = (weight * scale.float().repeat_interleave(module.in_features // groups, 1)).to(scale.dtype)
    del module.weight_packed
    module.weight = torch.nn.Parameter(weight, requires_grad=False)


class ModelCompressor:
    def decompress_model(self, model):
        for module in model.modules():
            decompress_module(module)
        model.ct_decompress_hook.remove()

    def add_decompress_hook(self, model):
        def ct_decompress_hook(model, args):
            self.decompress_model(model)

        model.ct_decompress_hook = model.register_forward_pre_hook(ct_decompress_hook)
