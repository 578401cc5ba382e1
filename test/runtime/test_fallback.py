"""The CPU fallback: right results, one warning an operator, the report; strict mode; operators it cannot reach."""

import warnings

import pytest
import torch

from helpers import assert_close, check_program, like_strided

# Operators of the CPU alone, which no device will ever have.
LIBRARY = torch.library.Library("aule_test", "DEF")
CPU_ALONE = torch.ops.aule_test


def on_cpu(schema):
    """Define the operator of this schema by the decorated function of CPU tensors."""
    LIBRARY.define(schema)

    def implement(function):
        LIBRARY.impl(schema.split("(")[0], function, "CPU")
        return function

    return implement


@on_cpu("cube(Tensor x) -> Tensor")
def cube(x):
    return x * x * x


@on_cpu("cube.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
def cube_out(x, *, out):
    result = cube(x)
    return out.resize_(result.shape).copy_(result)


@on_cpu("cube_(Tensor(a!) x) -> Tensor(a!)")
def cube_in_place(x):
    return x.copy_(cube(x))


@on_cpu("product.out(Tensor x, Tensor y, *, Tensor(a!) out) -> Tensor(a!)")
def product_out(x, y, *, out):
    result = x * y
    return out.resize_(result.shape).copy_(result)


@on_cpu("sums(Tensor x, Tensor[] parts, *, Tensor? weight=None) -> (Tensor, Tensor[])")
def sums(x, parts, *, weight=None):
    return (x if weight is None else x * weight[:, None]).sum(0), [part + 1 for part in parts]


# Operators of the CPU alone.
REFUSED = [
    lambda x: CPU_ALONE.cube(x),
    lambda x: CPU_ALONE.sums(x, [x, x.t()])[0],
]


def test_strict_refuses_by_name(device):
    assert torch.aule.is_strict()
    with pytest.raises(NotImplementedError, match=r"::cube.*strict"):
        CPU_ALONE.cube(torch.randn(3, 3, device=device))


@pytest.mark.parametrize("function", REFUSED)
def test_fallback_computes(device, not_strict, function):
    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = function(x.to(device))
    assert y.device.type == "aule"
    assert_close(y, function(x), rtol=1e-4)


def test_report_and_warning(device, not_strict):
    torch.aule.reset_fallback_report()
    x = torch.randn(3, 3, device=device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CPU_ALONE.cube(x)
        CPU_ALONE.cube(x)
    mine = [w for w in caught if "cube" in str(w.message)]
    assert len(mine) <= 1
    (entry,) = [e for e in torch.aule.fallback_report() if "cube" in e.op]
    assert entry.count == 2 and "3, 3" in entry.first_arguments
    torch.aule.reset_fallback_report()
    assert torch.aule.fallback_report() == []


def test_in_place_out_and_views(device, not_strict):
    x = torch.randn(6, 6)
    y = x.to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y[1:4, ::2].copy_(CPU_ALONE.cube(y[1:4, ::2]))
        x[1:4, ::2].copy_(CPU_ALONE.cube(x[1:4, ::2]))
        assert_close(y, x)
        out = torch.empty(0, device=device)
        CPU_ALONE.cube.out(y.abs() + 1, out=out)
        assert_close(out, CPU_ALONE.cube(x.abs() + 1))
        CPU_ALONE.cube_(y[:, 1:5:2].t())
        CPU_ALONE.cube_(x[:, 1:5:2].t())
        assert_close(y, x)


def matrices(dtype):
    """(name, matrix batch, the same on the device) with equal strides: what is contiguous decides what LAPACK gets."""
    x = torch.randn(3, 4, 4, dtype=dtype) + 2 * torch.eye(4, dtype=dtype)
    wide = torch.zeros(3, 9, 9, dtype=dtype)
    yield "contiguous", x
    yield "column-major", x.mT.contiguous().mT
    yield "batch last", x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    yield "stride 0", x[:1].expand(3, 4, 4)
    wide[:, 1:5, ::2][..., :4] = x
    yield "steps", wide[:, 1:5, ::2][..., :4]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.det,
        lambda x: torch.linalg.slogdet(x)[1],
        lambda x: torch.linalg.det(x @ x.mH).real.log(),
        torch.linalg.inv,
        lambda x: torch.linalg.qr(x)[1].abs(),
        lambda x: torch.linalg.svdvals(x),
        lambda x: torch.linalg.solve(x, x.mT),
    ],
    ids=["det", "slogdet", "logdet", "inv", "qr", "svdvals", "solve"],
)
def test_gradients_through_the_fallback(device, not_strict, dtype, function):
    for name, x in matrices(dtype):
        leaf, leaf_device = x.detach().requires_grad_(), like_strided(x, device).requires_grad_()
        assert leaf.stride() == leaf_device.stride(), name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y, z = function(leaf), function(leaf_device)
            assert y.stride() == z.stride()
            weight = torch.randn_like(y)
            for graph in (False, True):
                (g,) = torch.autograd.grad(y, leaf, weight, create_graph=graph, retain_graph=True)
                (h,) = torch.autograd.grad(z, leaf_device, weight.to(device), create_graph=graph, retain_graph=True)
                assert_close(h, g, rtol=1e-6, atol=1e-8, msg=name)
            (g,) = torch.autograd.grad(g.abs().pow(2).sum(), leaf)
            (h,) = torch.autograd.grad(h.abs().pow(2).sum(), leaf_device)
            assert_close(h, g, rtol=1e-6, atol=1e-8 + 1e-6 * g.abs().max().item(), msg=name)


def quietly(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def test_results_keep_the_strides_of_the_cpu(device, not_strict):
    for _, x in matrices(torch.float64):
        for function in (torch.linalg.lu_factor, torch.linalg.qr, torch.linalg.svd, torch.linalg.eigh, torch.geqrf):
            on_cpu, on_device = function(x), quietly(lambda: function(like_strided(x, device)))
            for e, a in zip(on_cpu, on_device):
                assert a.stride() == e.stride() and a.device.type == "aule"
                if function in (torch.linalg.lu_factor, torch.geqrf):
                    assert_close(a, e)


def test_out_arguments_get_sizes_strides_and_values(device, not_strict):
    x = torch.randn(4, 4, dtype=torch.float64) + 4 * torch.eye(4)
    for start in (torch.empty(0), torch.empty(4, 4), torch.empty(4, 4).t(), torch.empty(8, 8)[::2, ::2]):
        q, r = start.double(), torch.empty(0).double()
        q_device, r_device = like_strided(q, device), r.to(device)
        storage = q_device.untyped_storage()
        torch.linalg.qr(x, out=(q, r))
        results = quietly(lambda: torch.linalg.qr(x.to(device), out=(q_device, r_device)))
        assert results[0] is q_device and results[1] is r_device
        assert q_device.untyped_storage().data_ptr() == storage.data_ptr() and storage.nbytes() >= q.nbytes
        for e, a in ((q, q_device), (r, r_device)):
            assert a.stride() == e.stride()
            assert_close(a, e)


def test_arguments_that_share_memory(device, not_strict):
    for op in (
        lambda b: CPU_ALONE.cube.out(b, out=b),
        lambda b: CPU_ALONE.cube.out(b[2:5], out=b[2:5]),
        lambda b: CPU_ALONE.cube.out(b[:3], out=b[4:7]),
        lambda b: CPU_ALONE.product.out(b[1:4].t(), b[1:4].t()[:, :1], out=b[4:7].t()),
    ):
        base = torch.randn(8, 6)
        moved = base.to(device)
        result = op(base)
        result_device = quietly(lambda: op(moved))
        assert_close(moved, base, rtol=1e-3, atol=1e-4)
        assert_close(result_device, result, rtol=1e-3, atol=1e-4)


def test_optional_tensors_and_lists(device, not_strict):
    x, parts = torch.rand(30, 2, dtype=torch.float64), [torch.rand(5), torch.rand(2, 3).t()]
    for weight in (None, torch.rand(30, dtype=torch.float64)):
        expected = CPU_ALONE.sums(x, parts, weight=weight)
        moved = None if weight is None else weight.to(device)
        actual = quietly(lambda: CPU_ALONE.sums(x.to(device), [t.to(device) for t in parts], weight=moved))
        assert_close(actual[0], expected[0])
        assert_close(list(actual[1]), list(expected[1]))


def test_products_of_conjugates(device, not_strict):
    a, b = torch.randn(3, 4, dtype=torch.complex64), torch.randn(4, 3, dtype=torch.complex64)
    v, w = torch.randn(5, dtype=torch.complex64), torch.randn(5, dtype=torch.complex64)
    for function in (
        lambda a, b, v, w: a.conj() @ b,
        lambda a, b, v, w: a @ a.mH,
        lambda a, b, v, w: torch.addmm(a @ a.mH, b.mH, a.mH),
        lambda a, b, v, w: torch.bmm(a.conj()[None], b[None]),
        lambda a, b, v, w: torch.dot(v.conj(), w),
        lambda a, b, v, w: torch.vdot(v, w),
        lambda a, b, v, w: torch.vdot(v.conj(), w),
        lambda a, b, v, w: torch.linalg.vecdot(v, w),
        lambda a, b, v, w: torch.mv(a.conj(), v[:4].conj()),
        lambda a, b, v, w: v.conj() * w,
        lambda a, b, v, w: v.clone().mul_(w.conj()),
        lambda a, b, v, w: v.conj().mul_(w),
    ):
        e = function(*(t.clone() for t in (a, b, v, w)))
        x = quietly(lambda: function(*(t.to(device) for t in (a, b, v, w))))
        assert_close(x, e.resolve_conj(), rtol=1e-5, atol=1e-5)


def test_strict_context(device):
    assert torch.aule.is_strict()
    with torch.aule.strict(False):
        assert not torch.aule.is_strict()
        with torch.aule.strict():
            assert torch.aule.is_strict()
        assert not torch.aule.is_strict()
    assert torch.aule.is_strict()
    torch.aule.set_strict(None)
    assert torch.aule.is_strict()  # what TORCH_AULE_STRICT says


@pytest.mark.validated
def test_operators_that_look_composite(device):
    """These reach kernels of their own on this device, not the CPU, nor an internal error."""
    torch.manual_seed(0)
    x = torch.randn(2, 5, 8)
    for module, inputs in (
        (torch.nn.LSTM(8, 6, batch_first=True), (x,)),
        (torch.nn.GRU(8, 6, batch_first=True), (x,)),
        (torch.nn.MultiheadAttention(8, 2, batch_first=True), (x, x, x)),
        (torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (x,)),
    ):
        module.eval()
        with torch.no_grad():
            expected = module(*inputs)[0]
            actual = module.to(device)(*(t.to(device) for t in inputs))[0]
        assert_close(actual, expected, rtol=1e-3, atol=1e-5)


def test_transformer_encoder_with_a_padding_mask(device):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 5, 8)
    mask = torch.arange(5)[None] >= torch.tensor([5, 3, 2])[:, None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = encoder(x, src_key_padding_mask=mask)
        actual = encoder.to(device)(x.to(device), src_key_padding_mask=mask.to(device)).cpu()
    keep = ~mask
    assert_close(actual[keep], expected[keep], rtol=1e-3, atol=1e-5)


def test_math_attention_over_jagged_tensors_is_refused_by_name(device):
    lines = check_program("jagged_attention").strip().splitlines()
    assert len(lines) == 2 and all("nested" in line for line in lines), lines


def test_kinds_of_tensors_without_kernels_are_refused_in_a_sentence(device, not_strict):
    x = torch.eye(3)
    for kind, call in [
        ("sparse", lambda: x.to(device).to_sparse().cos()),
        ("sparse", lambda: torch.sparse.softmax(x.to_sparse().to(device), 0)),
        ("sparse", lambda: x.to(device).sparse_mask(x.to_sparse_csr().to(device))),
        ("quantized", lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to(device)),
        ("nested", lambda: torch.nested.nested_tensor([x], device=device) * 2),
    ]:
        with pytest.raises(NotImplementedError, match=rf"^aten::\w+.*: {kind} .*not supported on device aule") as e:
            call()
        assert len(str(e.value).splitlines()) == 1
