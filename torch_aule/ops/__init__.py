"""Our operators in torch.library: fake kernels, gradients, rules for vmap; imported at registration."""

from torch_aule.ops import (  # noqa: F401
    attention,
    attention_fake,
    attention_vmap,
    block_sparse,
    convolution,
    flops,
    linear,
    loss,
    moe,
    quantized,
    random,
    reference,
    rotary,
)
