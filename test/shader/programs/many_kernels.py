"""Makes many kernels at run time, holding few: what lives is bounded, and results stay right."""

import gc

import torch

from torch_aule import _C, compile_shader
from torch_aule.shader import runtime

SOURCE = """
layout(buffer_reference, scalar) readonly buffer In { float v[]; };
layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
params { In x; Out y; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y.v[i] = x.v[i] * FACTOR;
}"""

runtime.KEPT = 8
x = torch.arange(100, dtype=torch.float32)
on_device = x.to("aule")
out = torch.empty_like(on_device)


def times(factor):
    return compile_shader(SOURCE, name="times", defines={"FACTOR": f"{factor}.0"})


def run(kernel):
    kernel(on_device, out, 100)


def live():
    gc.collect()
    torch.aule.synchronize()
    return len(_C.active_pipelines(0)), len(_C.registered_kernels())


held = times(1000)
run(held)
graph = torch.aule.Graph() if hasattr(torch.aule, "Graph") else torch.aule.AuleGraph()
with torch.aule.graph(graph):
    run(times(2000))
first_pipelines, first_kernels = live()
pending = []
for i in range(60):
    run(times(i))  # nothing holds it while the device still has to run it
    pending.append((i, out.clone()))
for i, result in pending:
    assert torch.equal(result.cpu(), x * i), i
pipelines, kernels = live()
assert pipelines <= first_pipelines + 16, (first_pipelines, pipelines)
assert kernels <= first_kernels + 8, (first_kernels, kernels)

run(times(3))  # forgotten long ago
assert torch.equal(out.cpu(), x * 3)
run(held)
assert torch.equal(out.cpu(), x * 1000)
assert times(1000)._kernel.id == held._kernel.id  # one kernel, whoever made it again
graph.replay()
assert torch.equal(out.cpu(), x * 2000)

# Its last callable and the graph that has recorded it are gone: so are the kernels.
before = live()
del held, graph
for i in range(100, 100 + runtime.KEPT):
    run(times(i))
after = live()
assert after[0] < before[0] + runtime.KEPT and after[1] < before[1] + runtime.KEPT, (before, after)
print("good")
