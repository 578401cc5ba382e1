"""Sparse tensors of layouts COO and CSR over indices and values on the device."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, INTS, RELATIVE_TOLERANCES, relative_error

pytestmark = pytest.mark.validated


def coo(sizes, nnz, dtype=torch.float32, dense=()):
    """A random COO tensor on the CPU, with repeated indices."""
    indices = torch.stack([torch.randint(n, (nnz,)) for n in sizes]) if sizes else torch.zeros(0, nnz, dtype=torch.long)
    values = torch.randint(0, 2 if dtype == torch.bool else 9, (nnz, *dense)).to(dtype)
    if dtype.is_floating_point:
        values = torch.randn(nnz, *dense).to(dtype)
    return torch.sparse_coo_tensor(indices, values, (*sizes, *dense))


def mostly_zero(*sizes, dtype=torch.float32):
    return torch.where(torch.rand(sizes) < 0.3, torch.randn(sizes), torch.zeros(())).to(dtype)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, torch.bool, torch.float64], ids=str)
@pytest.mark.parametrize("sizes", [(7,), (5, 9), (3, 4, 5)], ids=str)
@pytest.mark.parametrize("dense", [(), (2,)], ids=str)
def test_coalesce_and_to_dense(device, sizes, dense, dtype):
    for nnz in (0, 1, 60):
        x = coo(sizes, nnz, dtype, dense)
        own = x.to(device)
        assert own.layout == torch.sparse_coo and own.device.type == "aule" and own._nnz() == nnz
        wide = x.double() if dtype.is_floating_point else x.long()
        expected, actual = wide.coalesce(), own.coalesce()
        assert actual.is_coalesced() and not (own.is_coalesced() and nnz > 1)
        assert torch.equal(actual.indices().cpu(), expected.indices())
        for a, e in ((actual.values(), expected.values()), (own.to_dense(), wide.to_dense())):
            assert a.dtype == dtype
            if dtype.is_floating_point:
                assert relative_error(a, e) <= RELATIVE_TOLERANCES[dtype]
            else:
                assert torch.equal(a.cpu(), e.to(dtype))
        assert torch.equal(actual.to_dense().cpu(), actual.cpu().to_dense())


def test_there_and_back(device):
    x = coo((5, 9), 20)
    assert torch.equal(x.to(device).cpu()._indices(), x._indices())
    assert torch.equal(x.to(device).cpu()._values(), x._values())
    assert torch.equal(x.to(device).clone().half().cpu().to_dense(), x.half().to_dense())
    made = torch.sparse_coo_tensor(x._indices().to(device), x._values().to(device), (5, 9))
    assert torch.equal(made.to_dense().cpu(), x.to(device).to_dense().cpu())
    assert "sparse_coo" in repr(made) and not torch.zeros(2, 2, layout=torch.sparse_coo, device=device).to_dense().any()
    with pytest.raises(RuntimeError):
        torch.sparse_coo_tensor(
            torch.tensor([[9], [0]], device=device), torch.ones(1, device=device), (5, 9), check_invariants=True
        )


def test_from_dense(device):
    x = mostly_zero(6, 7)
    own = x.to(device)
    assert torch.equal(own.to_sparse().cpu().to_dense(), x) and own.to_sparse().is_coalesced()
    assert torch.equal(own.to_sparse().indices().cpu(), x.to_sparse().indices())
    assert torch.equal(own.t().to_sparse(1).to_dense().cpu(), x.t())
    csr, expected = own.to_sparse_csr(), x.to_sparse_csr()
    for made in (csr, own.to_sparse().to_sparse_csr()):
        assert made.layout == torch.sparse_csr and made.device.type == "aule"
        assert torch.equal(made.crow_indices().cpu(), expected.crow_indices())
        assert torch.equal(made.col_indices().cpu(), expected.col_indices())
        assert torch.equal(made.values().cpu(), expected.values())
    assert torch.equal(csr.to_dense().cpu(), x) and torch.equal(csr.to_sparse().to_dense().cpu(), x)
    assert torch.equal(csr.cpu().to_dense(), x) and torch.equal(x.to_sparse_csr().to(device).to_dense().cpu(), x)
    assert "sparse_csr" in repr(csr)
    parts = (csr.crow_indices(), csr.col_indices(), csr.values())
    assert torch.equal(torch.sparse_csr_tensor(*parts, (6, 7)).to_dense().cpu(), x)
    short = torch.sparse_csr_tensor(parts[0].int(), parts[1].int(), parts[2], (6, 7), check_invariants=True)
    assert short.crow_indices().dtype == torch.int32 and torch.equal(short.to_dense().cpu(), x)
    assert relative_error(short @ own.t(), x.double() @ x.double().t()) < 1e-5
    rows = torch.ops.aten._convert_indices_from_coo_to_csr(
        torch.tensor([0, 0, 3], dtype=torch.int32, device=device), 5, out_int32=True
    )
    assert rows.dtype == torch.int32 and rows.tolist() == [0, 2, 2, 2, 3, 3]
    with pytest.raises(RuntimeError, match="col_indices"):
        torch.sparse_csr_tensor(parts[0], parts[1] + 7, parts[2], (6, 7), check_invariants=True)
    with pytest.raises(RuntimeError, match="crow_indices"):
        torch.sparse_csr_tensor(parts[0] + 1, parts[1], parts[2], (6, 7), check_invariants=True)
    empty = torch.zeros(3, 4, device=device)
    assert not empty.to_sparse_csr().to_dense().any() and not empty.to_sparse().to_dense().any()


def test_arithmetic(device):
    x, y, d = coo((5, 9), 30), coo((5, 9), 12), torch.randn(5, 9)
    a, b, e = x.to(device), y.to(device), d.to(device)
    X, Y, D = x.double().to_dense(), y.double().to_dense(), d.double()
    results = [
        (a + b, X + Y),
        (torch.add(a, b, alpha=-2), X - 2 * Y),
        (e + a, D + X),
        (torch.add(e, a, alpha=0.5), D + 0.5 * X),
        (e.clone().t().contiguous().t().add_(a, alpha=3), D + 3 * X),
        (a * 2.5, 2.5 * X),
        (a / 4, X / 4),
        (a.clone().mul_(3).add_(b), 3 * X + Y),
        (a.clone().div_(2), X / 2),
        (a * e, X * D),
        (-a, -X),
        (a.coalesce().pow(2), X**2),
        (a.abs().sqrt(), X.abs().sqrt()),
        (a.sin(), X.sin()),
        (a.t(), X.t()),
        (torch.cat([a, b]), torch.cat([X, Y])),
        (torch.sparse.sum(a), X.sum()),
        (a.sum(), X.sum()),
        (torch.sparse.sum(a, 0), X.sum(0)),
        (e.sparse_mask(a.coalesce()), D * X.ne(0)),
        (a.sparse_mask(b.coalesce()), X * Y.ne(0)),
        (a.clone().zero_(), X * 0),
    ]
    for i, (actual, expected) in enumerate(results):
        dense = actual.to_dense() if actual.layout != torch.strided else actual
        assert relative_error(dense, expected, 1.0) < 1e-5, i


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("layout", ["coo", "coalesced", "csr", "csc"])
def test_products(device, layout, dtype):
    tolerance = RELATIVE_TOLERANCES[dtype]
    for m, k, n, nnz in ((37, 23, 5, 90), (1, 300, 70, 200), (9, 4, 1, 0), (5, 0, 3, 0), (3, 2, 0, 4)):
        x = coo((m, k), nnz, dtype) if nnz else torch.sparse_coo_tensor(size=(m, k), dtype=dtype)
        wide = x.double().to_dense()
        own = x.to(device)
        if layout != "coo":
            own = own.coalesce()
            wide = own.cpu().double().to_dense()
        if layout == "csr":
            own = own.to_sparse_csr()
        if layout == "csc":
            own = own.t().coalesce().to_sparse_csr().t()
            assert own.layout == torch.sparse_csc
        dense, added = torch.randn(n, k).to(dtype).t(), torch.randn(m, n).to(dtype)
        expected = wide @ dense.double()
        scale = max(1e-3, expected.abs().max().item() if expected.numel() else 0)
        assert relative_error(torch.sparse.mm(own, dense.to(device)), expected, scale) <= tolerance
        assert relative_error(own @ dense.to(device), expected, scale) <= tolerance
        for left, e in ((added, added.double()), (added[:1], added[:1].double())):
            out = torch.addmm(left.to(device), own, dense.to(device), beta=-0.5, alpha=2)
            assert relative_error(out, -0.5 * e + 2 * expected, 1.0) <= 2 * tolerance


def test_a_row_of_many_elements(device):
    """Longer than an invocation may walk where the driver ends loops."""
    x = torch.sparse_coo_tensor(
        torch.stack([torch.randint(2, (70_000,)), torch.randint(50, (70_000,))]), torch.randn(70_000), (3, 50)
    )
    dense = torch.randn(50, 4)
    out = torch.sparse.mm(x.to(device), dense.to(device))
    assert relative_error(out, x.double().to_dense() @ dense.double(), 70_000**0.5) < 1e-5


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_gradients_of_products(device, layout):
    x, dense, weight = mostly_zero(8, 6), torch.randn(6, 5), torch.randn(8, 5)
    kept = x.ne(0)

    def gradients(x, dense, weight):
        x, dense = x.requires_grad_(), dense.requires_grad_()
        sparse = x.to_sparse() if layout == "coo" else x.to_sparse_csr()
        (torch.sparse.mm(sparse, dense) * weight).sum().backward()
        return x.grad, dense.grad

    own = gradients(*(t.clone().to(device) for t in (x, dense, weight)))
    assert relative_error(own[1], x.double().t() @ weight.double()) < 1e-5
    full = weight.double() @ dense.double().t()
    grad = own[0].to_dense() if own[0].layout != torch.strided else own[0]
    assert relative_error(grad, full * kept) < 1e-5


def test_gradients_of_conversions(device):
    x = mostly_zero(4, 5)
    own = x.to(device).requires_grad_()
    weight = torch.randn(4, 5)
    (own.to_sparse().to_dense() * weight.to(device)).sum().backward()
    assert torch.equal(own.grad.to_dense().cpu(), weight * x.ne(0)) or torch.equal(own.grad.to_dense().cpu(), weight)
    values = torch.randn(3, device=device, requires_grad=True)
    indices = torch.tensor([[0, 2, 2], [1, 0, 4]], device=device)
    (torch.sparse_coo_tensor(indices, values, (4, 5)).to_dense() * weight.to(device)).sum().backward()
    assert torch.equal(values.grad.cpu(), weight[[0, 2, 2], [1, 0, 4]])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
def test_sampled_addmm(device, dtype):
    for m, k, n in ((9, 17, 6), (1, 1, 40), (5, 0, 4)):
        x = mostly_zero(m, n, dtype=dtype)
        a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype).t()
        own = x.to(device).to_sparse_csr()
        out = torch.sparse.sampled_addmm(own, a.to(device), b.to(device), beta=0.5, alpha=-2)
        expected = (0.5 * x.double() - 2 * a.double() @ b.double()) * x.ne(0)
        assert out.layout == torch.sparse_csr and out.dtype == dtype
        assert relative_error(out.to_dense(), expected, 1.0) <= RELATIVE_TOLERANCES[dtype]


@pytest.mark.parametrize("optimizer", ["SGD", "momentum", "SparseAdam", "Adagrad"])
def test_training_of_sparse_embeddings(device, optimizer):
    table, words = torch.randn(12, 5), torch.randint(12, (4, 7))
    weight = torch.randn(4, 7, 5)

    def trained(device, dtype):
        layer = torch.nn.Embedding(12, 5, sparse=True, padding_idx=3, _weight=table.clone()).to(device, dtype)
        rules = {
            "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
            "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            "SparseAdam": lambda p: torch.optim.SparseAdam(list(p), lr=0.1),
            "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
        }
        rule = rules[optimizer](layer.parameters())
        for step in range(3):
            rule.zero_grad()
            for part in (words[: 2 + step], words[:1]):  # gradients are added up
                (layer(part.to(device)) * weight[: len(part)].to(device, dtype)).tanh().sum().backward()
            assert layer.weight.grad.layout == torch.sparse_coo
            rule.step()
        return layer.weight.detach(), layer.weight.grad.to_dense()

    for a, e in zip(trained(device, torch.float32), trained("cpu", torch.float64), strict=True):
        assert relative_error(a, e) < 1e-5


def test_embedding_bag_and_functional(device):
    words, table = torch.randint(9, (6,)), torch.randn(9, 4)
    own = table.to(device).requires_grad_()
    F.embedding(words.to(device), own, sparse=True).sum().backward()
    expected = torch.zeros(9, 4).index_add_(0, words, torch.ones(6, 4))
    assert own.grad.is_sparse and torch.equal(own.grad.to_dense().cpu(), expected)


def test_what_is_not_there_is_refused_by_name(device):
    a = coo((4, 4), 5).to(device)
    for call in (lambda: a @ a, lambda: a * a, lambda: a.cos(), lambda: torch.sparse.softmax(a, 1)):
        with pytest.raises(NotImplementedError, match="not supported on device aule"):
            call()
