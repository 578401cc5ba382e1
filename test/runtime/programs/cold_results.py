"""Every kernel is launched for the first time: copies, fills, views, streams, graphs; small integers, so all is exact."""

import torch

import torch_aule  # noqa: F401
from torch_aule import _C


def whole(*shape, most=4):
    return torch.randint(-most, most + 1, shape).double()


def equal(on_device, expected):
    assert torch.equal(on_device.cpu().double(), expected), (on_device.cpu().double() - expected).abs().max()


x, w, k = whole(33, 40), whole(40, 25), whole(5, 3, 3, 3)
image = whole(2, 3, 17, 19)
dx, dw, dk, di = (t.float().to("aule") for t in (x, w, k, image))
a = dx @ dw  # nothing waits from here ...
b = torch.relu(a.t()[3:, ::2]).contiguous()
c = torch.nn.functional.conv2d(di, dk, padding=1)
a[4].fill_(7)
a[:, 5] = dx[:, 1]
d = torch.cat((a, a.flip(0)), 1)
e = d.cumsum(0).to(torch.int32)
kept = torch.empty_like(d)
kept.copy_(d)
d.zero_()
ra = x @ w
rb = torch.relu(ra.t()[3:, ::2]).contiguous()
ra[4] = 7
ra[:, 5] = x[:, 1]
rd = torch.cat((ra, ra.flip(0)), 1)
assert a.sum().item() == ra.sum().item()  # ... to here, and again
more = c.amax((2, 3)) * 2 - c.amin((2, 3))
order = a.sort(dim=1, stable=True)
pinned = torch.empty(5, 17).pin_memory()
rc = torch.nn.functional.conv2d(image, k, padding=1)
pinned[:2, :5].copy_(more, non_blocking=True)
equal(b, rb)
equal(c, rc)
equal(e, rd.cumsum(0))
equal(kept, rd)
equal(d, torch.zeros_like(rd))
equal(more, rc.amax((2, 3)) * 2 - rc.amin((2, 3)))
assert torch.equal(pinned[:2, :5].double(), more.cpu().double())
assert torch.equal(order.indices.cpu(), ra.sort(dim=1, stable=True).indices)

# Streams that wait for each other's cold kernels.
side, other = torch.Stream(device="aule"), torch.Stream(device="aule")
main = torch.accelerator.current_stream()
y = dx * 3 - 1
side.wait_stream(main)
with torch.aule.stream(side):
    z = y.square().triu(1)
    ready = side.record_event()
    z2 = z.roll(2, 0)
other.wait_event(ready)
with torch.aule.stream(other):
    v = torch.tril(z + 2, 3)
    arrived = torch.from_numpy(w.numpy()).float().to("aule", non_blocking=True)
main.wait_stream(side)
main.wait_stream(other)
total = (z2.sum() + v.sum() + arrived.amax(0).sum()).item()
ry = (x * 3 - 1).square().triu(1)
assert total == (ry.roll(2, 0).sum() + torch.tril(ry + 2, 3).sum() + w.amax(0).sum()).item()
event = torch.Event(device="aule")
u = dx.fmod(3).clamp(-1, 2)
event.record()
while not event.query():
    pass
equal(u, x.fmod(3).clamp(-1, 2))

# A graph's own kernels, and those before it.
static = torch.arange(60.0, device="aule").view(6, 10).logical_not().float() + 1
if hasattr(torch.accelerator, "Graph"):  # torch 2.12 and later
    graph = torch.accelerator.Graph()
    with graph:
        out = (static.remainder(5) + static.floor()).diff(dim=1)
    static.copy_(whole(6, 10).float(), non_blocking=True)
    graph.replay()
    expected = static.cpu().double()
    equal(out, (expected.remainder(5) + expected).diff(dim=1))
torch.accelerator.synchronize()
count, seconds = _C.compile_times(0)
assert count >= 20 and seconds > 0, (count, seconds)
print(count)
