"""One physical device twice, by TORCH_AULE_VISIBLE_DEVICES=0,0."""

import torch

import torch_aule  # noqa: F401

assert torch.aule.device_count() == 2
a = torch.arange(1000, dtype=torch.float32, device="aule:0")
b = a.to("aule:1")
assert b.device.index == 1 and torch.equal(a.cpu(), b.cpu())
with torch.aule.device(1):
    assert torch.aule.current_device() == 1
    c = torch.zeros(3, device="aule")
    assert c.device.index == 1
    assert torch.aule.current_stream().device.index == 1
assert torch.aule.current_device() == 0
with torch.Stream(device="aule:1"):
    assert torch.aule.current_device() == 1
b.fill_(2)
a.copy_(b)
assert a.sum().item() == 2000
with torch.aule.device_of(b):
    assert torch.aule.current_device() == 1
torch.aule.manual_seed_all(3)
x = torch.rand(5, device="aule:0")
y = torch.rand(5, device="aule:1")
assert torch.equal(x.cpu(), y.cpu())
assert torch.aule.memory_allocated(1) > 0 and torch.aule.memory_allocated(0) > 0
torch.aule.synchronize(1)
for call in (
    lambda: a + b,
    lambda: torch.mm(a[:4].view(2, 2), b[:4].view(2, 2)),
    lambda: a.index_select(0, c.long()),
    lambda: torch.where(a > 0, a, b),
    lambda: torch.nn.functional.layer_norm(a, (1000,), b),
    lambda: torch.nn.functional.prelu(a, b[:1]),
):
    try:
        call()
    except RuntimeError as e:
        assert "aule:0" in str(e) and "aule:1" in str(e), e
    else:
        raise SystemExit("two devices in one operation")
