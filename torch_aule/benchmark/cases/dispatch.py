"""The host's cost of a call: small inputs, issued without waiting for the device."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from torch_aule.benchmark.harness.case import Case, Sizes
from torch_aule.benchmark.harness.targets import Target

GENERATED = """
layout(local_size_x = 64) in;
struct Params { uint64_t x, b, c, y; uint n; };
#include <aule/common/params.glsl>
#include <aule/common/indexing.glsl>
#include <aule/common/dtype.glsl>
void main() {
  uint64_t i = linear_invocation();
  if (i < p.n) F32Ref(p.y + i * 4).v = F32Ref(p.b + i * 4).v + F32Ref(p.x + i * 4).v * F32Ref(p.c + i * 4).v;
}
"""
USER = """
layout(buffer_reference, scalar) buffer Data { float v[]; };
params { Data x, b, c, y; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y.v[i] = b.v[i] + x.v[i] * c.v[i];
}
"""


def dispatch(sizes: Sizes) -> list[Case]:
    def case(name, shapes, make, dtype="float32", main=True, target=None):
        return Case("dispatch", name, shapes, dtype, make, clock="host", main=main, target=target)

    def binary(device):
        a, b = torch.ones(16, device=device), torch.ones(16, device=device)
        return lambda: torch.add(a, b)

    def out(device):
        a, b, c = (torch.ones(16, device=device) for _ in range(3))
        return lambda: torch.add(a, b, out=c)

    def unary(device):
        a = torch.ones(16, device=device)
        return lambda: a.exp_()

    def matmul(device):
        a = torch.ones(8, 8, device=device)
        return lambda: a @ a

    def view(device):
        a = torch.ones(8, 8, device=device)
        return lambda: a.transpose(0, 1)

    def on_rows(function):
        def make(device):
            x, w = torch.ones(8, 64, device=device), torch.ones(64, device=device)
            return lambda: function(x, w)

        return make

    def copy(device):
        a, b = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device).t()
        return lambda: a.copy_(b)

    def embedding(device):
        w, codes = torch.ones(16, 64, device=device), torch.arange(8, device=device)
        return lambda: F.embedding(codes, w)

    def conv2d(device):
        x, w = torch.ones(1, 8, 8, 8, device=device), torch.ones(8, 8, 3, 3, device=device)
        return lambda: F.conv2d(x, w)

    def sdpa(length):
        def make(device):
            q = torch.ones(1, 2, length, 64, device=device, dtype=torch.float16)
            k = torch.ones(1, 2, 64, 64, device=device, dtype=torch.float16)
            return lambda: F.scaled_dot_product_attention(q, k, k)

        return make

    def adamw(device):
        p = [torch.nn.Parameter(torch.ones(64, device=device)) for _ in range(4)]
        for x in p:
            x.grad = torch.ones_like(x)
        return torch.optim.AdamW(p, lr=1e-4, fused=True).step

    def addcmul(of):
        """A kernel with four tensors, against the operator that does the same."""

        def make(device):
            x, b, c, y = (torch.ones(64, device=device) for _ in range(4))
            kernel = of() if x.device.type == "aule" else None
            if kernel is None:
                return lambda: torch.addcmul(b, x, c, out=y)
            return lambda: kernel(x, b, c, y, 64)

        return make

    def generated():
        from torch_aule.shader.generated import compile_generated

        kernel = compile_generated(GENERATED, name="benchmark_addcmul", signature="rrrwu")
        return lambda x, b, c, y, n: kernel(x, b, c, y, n, 1)

    def user():
        from torch_aule import compile_shader

        return compile_shader(USER, name="benchmark_addcmul")

    def allocation(device):
        if torch.device(device).type != "aule":
            return lambda: torch.empty_strided((8, 64), (64, 1), dtype=torch.float32, device=device)
        from torch_aule._C import empty_strided_aule

        return lambda: empty_strided_aule((8, 64), (64, 1), torch.float32)

    return [
        case("generated_kernel", "4 of 64 values", addcmul(generated), target=Target("us", 3.0)),
        case("compile_shader", "4 of 64 values", addcmul(user), main=False),
        case("allocation", "8x64", allocation, target=Target("us", 1.0)),
        case("add", "16 values", binary),
        case("add_out", "16 values", out),
        case("exp_in_place", "16 values", unary),
        case("mm", "8x8x8", matmul),
        case("transpose_view", "8x8", view),
        case("copy_strided", "8x8", copy, main=False),
        case("sum", "8x64", on_rows(lambda x, w: x.sum(-1)), main=False),
        case("softmax", "8x64", on_rows(lambda x, w: x.softmax(-1)), main=False),
        case("layer_norm", "8x64", on_rows(lambda x, w: F.layer_norm(x, (64,), w)), main=False),
        case("linear_bias", "8x64 by 64x64", on_rows(lambda x, w: F.linear(x, w.expand(64, 64), w)), main=False),
        case("cat", "2 of 8x64", on_rows(lambda x, w: torch.cat((x, x))), main=False),
        case("embedding", "8 of 16x64", embedding, main=False),
        case("conv2d", "8x8x8 by 8x8x3x3", conv2d, main=False),
        case("sdpa", "B1 H2 N64 D64", sdpa(64), "float16", main=False),
        case("sdpa_decode", "B1 H2 D64 keys 64", sdpa(1), "float16", main=False),
        case("adamw_fused", "4 of 64 values", adamw, main=False),
    ]
