"""flash_attention(out=...) and torch.ops.aule.flash_attn_fwd.out: into a tensor of the caller."""

import pytest
import torch

import torch_aule
from attention_reference import check, inputs, reference
from helpers import FLOATS

pytestmark = pytest.mark.validated


def operands(heads, dtype=torch.float32):
    return inputs(1, heads, 2, 37, 37, 24, 24, dtype)


def into(q, k, v, out, **options):
    return torch_aule.flash_attention(q, k, v, **options, out=out)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_flash_attention_into_a_tensor(device, dtype):
    """A dense one is written by the kernel itself, others through a copy."""
    q, k, v, grad = operands(4, dtype)
    wanted = reference(q, k, v, grad, causal=True)[0]
    dense, strided = torch.empty_like(grad), torch.full((1, 4, 24, 40), 7, dtype=dtype, device=device)
    transposed = strided.transpose(-1, -2)[:, :, 3:]
    for out in (dense, transposed):
        assert into(q, k, v, out) is out
        check([out], [wanted], dtype)
    assert (strided[..., :3] == 7).all()
    assert torch.equal(into(q[0], k[0], v[0], torch.empty_like(grad[0])), dense[0])
    on_host = [t.cpu() for t in (q, k, v, grad)]
    assert torch.equal(into(*on_host).to(device), dense)
    empty = torch.empty(1, 4, 3, 24, dtype=dtype, device=device)
    assert not into(q[:, :, :3], k[:, :, :0], v[:, :, :0], empty).any()


def test_flash_attention_into_a_tensor_compiled_and_captured(device):
    q, k, v, out = operands(2)
    op = torch.ops.aule.flash_attn_fwd.out
    torch.library.opcheck(op, (q, k, v), {"is_causal": True, "out": out})
    eager = into(q, k, v, torch.empty_like(out))

    def call(q, k, v, out):
        op(q * 1, k, v, is_causal=True, out=out)
        return out + 1

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v, out.zero_()), eager + 1) and torch.equal(out, eager)
    torch._dynamo.reset()
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        into(q, k, v, out)
    q.neg_()
    graph.replay()
    assert torch.equal(out, into(q, k, v, torch.empty_like(out)))


def test_errors_of_flash_attention_into_a_tensor(device):
    q, k, v, out = operands(2)
    op = torch.ops.aule.flash_attn_fwd.out
    for call in (into, lambda *t: op(*t[:3], out=t[3])):
        with pytest.raises(RuntimeError, match=r"expected out of shape \[1, 2, 37, 24\], but got \[1, 2, 36, 24\]"):
            call(q, k, v, out[:, :, 1:])
        with pytest.raises((RuntimeError, TypeError), match="expected out of dtype .* like q"):
            call(q, k, v, out.half())
        with pytest.raises(RuntimeError, match="overlap|single memory location"):
            call(q, k, v, v)
        with pytest.raises(RuntimeError, match="single memory location"):
            call(q, k, v, out[:, :1].expand(1, 2, 37, 24))
    with pytest.raises(RuntimeError, match="expected out on aule"):
        into(q, k, v, out.cpu())
    with pytest.raises(RuntimeError, match="no gradient through out"):
        into(q.requires_grad_(), k, v, out)
    with pytest.raises(TypeError, match="without return_lse"):
        into(q.detach(), k, v, out, return_lse=True)
