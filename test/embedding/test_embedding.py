"""Embeddings against the CPU."""

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close

pytestmark = pytest.mark.validated


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("width", [1, 7, 8, 64])
def test_forward_and_backward(dtype, width):
    weight = torch.randint(-4, 5, (11, width)).to(dtype)
    index = torch.randint(0, 11, (3, 5))
    a, b = weight.clone().requires_grad_(), weight.to("aule").requires_grad_()
    ya, yb = F.embedding(index, a, padding_idx=2), F.embedding(index.to("aule"), b, padding_idx=2)
    assert_close(yb, ya, rtol=0, atol=0)
    g = torch.randint(-2, 3, ya.shape).to(dtype)
    ya.backward(g)
    yb.backward(g.to("aule"))
    assert_close(b.grad, a.grad, rtol=0, atol=0)


def test_layouts_and_index_dtypes():
    weight, index = torch.randn(6, 9).t(), torch.randint(0, 9, (4, 2), dtype=torch.int32).t()
    assert_close(F.embedding(index.to("aule"), weight.to("aule")), F.embedding(index, weight), rtol=0, atol=0)
    assert_close(F.embedding(index[:0].to("aule"), weight.to("aule")), F.embedding(index[:0], weight), rtol=0, atol=0)
    assert_close(
        F.embedding(index[0, 0].to("aule"), weight.to("aule")), F.embedding(index[0, 0], weight), rtol=0, atol=0
    )
    # A transposed gradient
    got = torch.ops.aten.embedding_dense_backward(
        torch.ones(3, 8, 5, device="aule").transpose(0, 1),
        torch.zeros(8, 3, dtype=torch.long, device="aule"),
        4,
        -1,
        False,
    )
    want = torch.zeros(4, 5)
    want[0] = 24
    assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("width", [3, 96])
def test_a_frequent_row(width):
    """Contended sums, on the path by columns and on the atomic one."""
    index = torch.randint(0, 3, (4000,))
    grad = torch.randint(-3, 4, (4000, width)).float()
    got = torch.ops.aten.embedding_dense_backward(grad.to("aule"), index.to("aule"), 5, -1, False)
    assert_close(got, torch.ops.aten.embedding_dense_backward(grad, index, 5, -1, False), rtol=0, atol=0)
    half = torch.ops.aten.embedding_dense_backward(
        torch.ones(4000, width, dtype=torch.bfloat16, device="aule"),
        torch.zeros(4000, dtype=torch.long, device="aule"),
        2,
        -1,
        False,
    )
    assert half.dtype == torch.bfloat16 and half[0, 0].item() == torch.tensor(4000.0).bfloat16().item()


def test_scale_grad_by_freq():
    index, grad = torch.randint(0, 5, (3, 7)), torch.randn(3, 7, 4)
    args = (6, 1, True)
    got = torch.ops.aten.embedding_dense_backward(grad.to("aule"), index.to("aule"), *args)
    assert_close(got, torch.ops.aten.embedding_dense_backward(grad, index, *args))


def test_max_norm():
    weight = torch.randn(8, 4) * 3
    index = torch.tensor([[1, 3, 3], [5, 1, 0]])
    a, b = weight.clone(), weight.to("aule")
    assert_close(F.embedding(index.to("aule"), b, max_norm=1.5), F.embedding(index, a, max_norm=1.5))
    assert_close(b, a)


def test_out_of_range():
    weight = torch.randn(5, 4, device="aule")
    for bad in (5, -1):
        with pytest.raises(IndexError, match="embedding"):
            F.embedding(torch.tensor([0, bad], device="aule"), weight)
            torch.accelerator.synchronize()
    assert_close(F.embedding(torch.tensor([4], device="aule"), weight), weight.cpu()[4:], rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 3])
def test_embedding_bag(mode, padding_idx):
    weight, index = torch.randn(9, 5), torch.randint(0, 9, (14,))
    for offsets, kwargs in (([0, 3, 3, 10], {}), ([0, 3, 3, 14], {"include_last_offset": True})):
        offsets = torch.tensor(offsets)
        a, b = weight.clone().requires_grad_(), weight.to("aule").requires_grad_()
        ya = F.embedding_bag(index, a, offsets, mode=mode, padding_idx=padding_idx, **kwargs)
        yb = F.embedding_bag(index.to("aule"), b, offsets.to("aule"), mode=mode, padding_idx=padding_idx, **kwargs)
        assert_close(yb, ya)
        g = torch.randn_like(ya)
        ya.backward(g)
        yb.backward(g.to("aule"))
        assert_close(b.grad, a.grad)


@pytest.mark.parametrize("padding_idx", [None, 2])
def test_embedding_bag_of_sparse_gradients(padding_idx):
    weight, index, scale = torch.randn(9, 5), torch.randint(0, 9, (14,)), torch.rand(14)
    offsets = torch.tensor([0, 3, 3, 10])
    for mode, scales in (("sum", None), ("mean", None), ("sum", scale)):
        kwargs = {"mode": mode, "padding_idx": padding_idx, "sparse": True}
        a, b = weight.clone().requires_grad_(), weight.to("aule").requires_grad_()
        ya = F.embedding_bag(index, a, offsets, per_sample_weights=scales, **kwargs)
        yb = F.embedding_bag(index.to("aule"), b, offsets.to("aule"), **kwargs,
                             per_sample_weights=None if scales is None else scales.to("aule"))  # fmt: skip
        assert_close(yb, ya)
        g = torch.randn_like(ya)
        ya.backward(g)
        yb.backward(g.to("aule"))
        assert b.grad.layout == torch.sparse_coo
        assert_close(b.grad.to_dense(), a.grad.to_dense())
    bag = torch.nn.EmbeddingBag(9, 5, sparse=True, mode="sum").to("aule")
    bag(index.to("aule"), offsets.to("aule")).sum().backward()
    before = bag.weight.detach().clone()
    torch.optim.SGD(bag.parameters(), 0.5).step()
    assert_close(bag.weight.detach(), before - 0.5 * bag.weight.grad.to_dense())


def test_embedding_bag_scale_grad_by_freq():
    # The CPU divides by other rows' counts here, so the reference is the plain gradient over the count.
    index, offsets = torch.tensor([4, 4, 0, 4, 2, 0]), torch.tensor([0, 2])
    grads = []
    for scale in (False, True):
        weight = torch.randn(5, 3, device="aule", requires_grad=True)
        F.embedding_bag(
            index.to("aule"), weight, offsets.to("aule"), mode="sum", scale_grad_by_freq=scale
        ).sum().backward()
        grads.append(weight.grad.cpu())
    assert_close(grads[1], grads[0] / torch.bincount(index, minlength=5).clamp(min=1).unsqueeze(1))


def test_embedding_bag_weights():
    weight, index, scale = torch.randn(9, 5), torch.randint(0, 9, (4, 3)), torch.rand(4, 3)
    leaves = [t.clone().requires_grad_() for t in (weight, scale)]
    moved = [t.to("aule").requires_grad_() for t in (weight, scale)]
    ya = F.embedding_bag(index, leaves[0], per_sample_weights=leaves[1], mode="sum")
    yb = F.embedding_bag(index.to("aule"), moved[0], per_sample_weights=moved[1], mode="sum")
    assert_close(yb, ya)
    g = torch.randn_like(ya)
    ya.backward(g)
    yb.backward(g.to("aule"))
    for x, y in zip(moved, leaves):
        assert_close(x.grad, y.grad)
