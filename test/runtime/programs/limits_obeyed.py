"""Buffers of 67,000,000 bytes, 256 MiB of memory, workgroups of 128 and 128 bytes of parameters: all obey."""

import torch

from torch_aule import _C

LARGEST = 67_000_000
limits = _C.device_limits(0)
assert limits["max_buffer_bytes"] == limits["max_allocation_bytes"] == LARGEST

# What fits one buffer is not rounded past it.
x = torch.ones(LARGEST // 4 - 64, device="aule")
assert x.sum().item() == x.numel()
try:
    torch.empty(LARGEST // 4 + 1, device="aule")
    raise AssertionError("a tensor that is larger than the largest buffer")
except torch.OutOfMemoryError as error:
    assert f"larger than the device's largest buffer ({LARGEST} bytes)" in str(error), error
y = torch.arange(LARGEST // 4 + 4096, dtype=torch.float32)  # a copy of more than a buffer, in parts
halves = [half.to("aule") for half in y.chunk(2)]
assert torch.equal(torch.cat([half.cpu() for half in halves]), y)
del x, halves

# The memory is what was left of it, for those who ask and for those who allocate.
free, total = torch.aule.mem_get_info()
assert free <= total == 256 << 20
kept = []
try:
    for _ in range(5):
        kept.append(torch.empty(64_000_000, dtype=torch.uint8, device="aule"))
    raise AssertionError("more than the device has")
except torch.OutOfMemoryError as error:
    assert len(kept) >= 3, error
del kept

# Plans.
a, b = torch.randn(300, 257), torch.randn(257, 129)
for transposed in (False, True):
    left = a.to("aule")
    left = left.t().contiguous().t() if transposed else left
    assert torch.allclose((left @ b.to("aule")).cpu(), a @ b, atol=1e-3)
assert torch.allclose(torch.softmax(a.to("aule"), 0).cpu(), torch.softmax(a, 0), atol=1e-6)
assert torch.equal(a.to("aule").sort(0).values.cpu(), a.sort(0).values)
q, k, v = torch.randn(3, 2, 4, 65, 32).unbind()
attention = torch.nn.functional.scaled_dot_product_attention
assert torch.allclose(attention(q.to("aule"), k.to("aule"), v.to("aule")).cpu(), attention(q, k, v), atol=1e-5)

# A kernel that is too large is refused by name.
if limits["max_workgroup_invocations"] >= 256:
    raise SystemExit(0)
try:
    _C.compile_kernel(0, next(name for name, _, _ in _C.registered_kernels() if name.startswith("transpose")), [])
    raise AssertionError("a workgroup of 256 invocations")
except RuntimeError as error:
    assert "wants a workgroup of 32 x 8 x 1 invocations" in str(error), error
