"""Quantized weights that stay packed: decoders by their formats' definition, products against float64."""

import numpy as np
import pytest
import torch

import torch_aule
from helpers import FLOATS, check_program, layouts, like_strided, limited
from quantized_reference import EPS, FORMATS, decoded, magnitudes, random_blocks
from torch_aule import quantized

pytestmark = pytest.mark.validated
MOST_FEW_ROWS = 16  # of x; with more, weights are decoded to x's dtype first


def generator():
    return np.random.default_rng(torch.randint(2**31, ()).item())


def weights(format, *sizes):
    """Packed weights on the device, their numbers in float64, and the sizes of what each is the sum of."""
    blocks = random_blocks(generator(), format, *sizes)
    packed = quantized.pack(torch.from_numpy(blocks), format).to("aule")
    return packed, torch.from_numpy(decoded(blocks, format)).double(), magnitudes(blocks, format)


def bound(x, w, sizes, bias, dtype):
    """How far a product may be from float64's.

    Every sum has at most k + 32 roundings, of half a unit, or of a whole one on matrix units. Weights are rounded to
    the dtype for many rows, the result always; 2^-25 is half the smallest float16.
    """
    x = x.double()
    result = x @ w.mT + (0 if bias is None else bias.double())
    terms = x.abs() @ sizes.mT + (0 if bias is None else bias.double().abs())
    rounded = EPS[dtype] * (x.abs() @ w.abs().mT) if x.size(-2) > MOST_FEW_ROWS else 0
    tolerance = (x.size(-1) + 32) * 2.0**-23 * terms + rounded
    return result, tolerance * (1 + EPS[dtype]) + EPS[dtype] * result.abs() + 2.0**-25


def check(actual, expected, tolerance):
    excess = (actual.cpu().double() - expected).abs() - tolerance
    assert bool((excess <= 0).all()), f"{excess.max().item():.3g} past the bound"


@pytest.mark.parametrize("format", FORMATS)
def test_every_weight_has_the_bits_of_its_definition(format):
    k = 3 * FORMATS[format].values
    packed, numbers, _ = weights(format, 37, k)
    for dtype in FLOATS:
        assert torch.equal(quantized.dequantize(packed, format, k, dtype).cpu(), numbers.to(torch.float32).to(dtype))
    for index_dtype in (torch.int32, torch.int64):
        indices = torch.randint(37, (3, 5), dtype=index_dtype)
        rows = quantized.rows(packed, indices.to("aule"), format, k, torch.bfloat16)
        assert torch.equal(rows.cpu(), numbers.to(torch.float32).to(torch.bfloat16)[indices.long()])


def check_products(format, m, dtype):
    rng = generator()
    n, k = int(rng.integers(1, 80)), FORMATS[format].values * int(rng.integers(1, 6))
    packed, w, sizes = weights(format, n, k)
    x, bias = torch.randn(m, k).to(dtype), torch.randn(n).to(dtype)
    out = quantized.linear(x.to("aule"), packed, format, bias.to("aule"))
    assert out.dtype == dtype and out.is_contiguous()
    check(out, *bound(x, w, sizes, bias, dtype))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("m", [1, 3, 17])
def test_products_of_every_format(format, m):
    check_products(format, m, torch.bfloat16)


def test_by_the_kernels_for_gpus():
    check_program("quantized_as_gpu", **limited("radv"))


def test_by_dot_products_of_integers():
    check_program("quantized_as_gpu", "dot", **limited("radv"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m", [1, 2, 4, 7, 16, 17, 512])
def test_products_of_few_and_many_rows(m, dtype):
    check_products("q5_k", m, dtype)


@pytest.mark.parametrize("m", [1, 5, 33])
def test_products_of_views(m):
    """Rows of x with gaps, offsets and other orders; rows of the weight from the middle."""
    packed, w, sizes = weights("q4_1", 29, 96)
    part, w, sizes = packed[3:21], w[3:21], sizes[3:21]
    for dtype in FLOATS:
        x = torch.randn(m, 96).to(dtype)
        for _name, view in layouts(x):
            check(quantized.linear(like_strided(view), part, "q4_1"), *bound(x, w, sizes, None, dtype))
        batched = x.expand(2, 3, m, 96).contiguous()
        out = quantized.linear(batched.to("aule"), part, "q4_1")
        assert out.shape == (2, 3, m, 18)
        wide = batched.reshape(-1, 96)
        check(out.reshape(-1, 18), *bound(wide, w, sizes, None, dtype))


def test_a_weight_of_odd_strides_or_at_an_odd_byte_is_copied_first():
    packed, w, sizes = weights("q8_0", 9, 64)
    line = torch.zeros(packed.numel() + 1, dtype=torch.uint8, device="aule")[1:].view(packed.shape)
    line.copy_(packed)
    assert torch.equal(quantized.dequantize(line, "q8_0", 64).cpu().double(), w)
    wide = torch.zeros(9, packed.size(1) + 3, dtype=torch.uint8, device="aule")
    wide[:, 1:-2] = packed
    x = torch.randn(2, 64)
    check(quantized.linear(x.to("aule"), wide[:, 1:-2], "q8_0"), *bound(x, w, sizes, None, torch.float32))


@pytest.mark.parametrize("m", [2, 40])
def test_gradients(m):
    packed, w, sizes = weights("q4_k", 24, 512)
    x = torch.randn(3, m, 512, device="aule", requires_grad=True)
    bias = torch.randn(24, device="aule", requires_grad=True)
    grad = torch.randn(3, m, 24)
    out = quantized.linear(x, packed, "q4_k", bias)
    grad_x, grad_bias = torch.autograd.grad(out, (x, bias), grad.to("aule"), create_graph=True)
    flat = grad.reshape(-1, 24).double()
    # Sums of 24 terms of decoded weights, in float32.
    check(grad_x.reshape(-1, 512), flat @ w, (24 + 32) * 2.0**-23 * (flat.abs() @ sizes))
    check(grad_bias, flat.sum(0), 3 * m * 2.0**-23 * flat.abs().sum(0))
    g = torch.randn(3, m, 24, device="aule", requires_grad=True)
    (back,) = torch.autograd.grad(torch.autograd.grad(out, x, g, create_graph=True)[0], g, torch.ones_like(x))
    check(back.reshape(-1, 24), *bound(torch.ones(3 * m, 512), w, sizes, None, torch.float32))


@pytest.mark.parametrize("format", ["q4_k", "q8_0", "mxfp4"])
def test_products_by_expert(format):
    k = FORMATS[format].values * 2
    packed, w, sizes = weights(format, 5, 19, k)
    for dtype, index_dtype in zip(FLOATS, (torch.int32, torch.int64, torch.int32)):
        x, ids = torch.randn(21, k).to(dtype), torch.randint(5, (21, 2), dtype=index_dtype)
        out = quantized.linear_by_expert(x.to("aule"), packed, ids.to("aule"), format)
        assert out.shape == (21, 2, 19)
        for s in range(2):
            for i in range(21):
                e = ids[i, s]
                check(out[i : i + 1, s], *bound(x[i : i + 1], w[e], sizes[e], None, dtype))


@pytest.mark.parametrize("experts_at_once", [1, 2, 5])
def test_gradients_by_expert(experts_at_once, monkeypatch):
    """To rows of x, and once more to the gradient that came in; one expert has no row."""
    form, n, experts, m, slots = "q4_k", 19, 5, 21, 2
    k = FORMATS[form].values * 2
    packed, w, sizes = weights(form, experts, n, k)
    for dtype, index_dtype in zip(FLOATS, (torch.int32, torch.int64, torch.int32)):
        monkeypatch.setattr(torch_aule.ops.quantized, "CHUNK_BYTES", experts_at_once * n * k * dtype.itemsize)
        x, ids = torch.randn(m, k).to(dtype), torch.randint(experts - 1, (m, slots), dtype=index_dtype)
        grad, again = torch.randn(m, slots, n).to(dtype), torch.randn(m, k).to(dtype)
        there, grad_there = x.to("aule").requires_grad_(), grad.to("aule").requires_grad_()
        out = quantized.linear_by_expert(there, packed, ids.to("aule"), form)
        (grad_x,) = torch.autograd.grad(out, there, grad_there, create_graph=True)
        assert grad_x.shape == x.shape and grad_x.dtype == dtype
        own, own_sizes = w[ids.long()], sizes[ids.long()]
        products = torch.einsum("msn,msnk->msk", grad.double(), own)
        terms = torch.einsum("msn,msnk->msk", grad.double().abs(), own_sizes)
        numbers = torch.einsum("msn,msnk->msk", grad.double().abs(), own.abs())
        # Sums of n terms in float32 as those of a product. Of a dtype of 16 bits the weights are rounded, each
        # slot's product, and their sum; 2^-25 is half the smallest float16.
        eps = EPS[dtype] if dtype != torch.float32 else 2.0**-23
        apart = (n + 32) * 2.0**-23 * terms + EPS[dtype] * numbers
        apart = apart * (1 + eps) + eps * products.abs() + 2.0**-25
        total = products.sum(1)
        check(grad_x, total, apart.sum(1) * (1 + eps) + eps * total.abs() + 2.0**-25)
        (back,) = torch.autograd.grad(grad_x, grad_there, again.to("aule"))
        for s in range(slots):
            for i in range(m):
                e = ids[i, s]
                check(back[i : i + 1, s], *bound(again[i : i + 1], w[e], sizes[e], None, dtype))


def test_more_rows_than_a_dimension_has_workgroups():
    n = 2**20 + 3
    blocks = np.tile(random_blocks(generator(), "q4_0", 7, 32), (n // 7 + 1, 1))[:n]
    packed = quantized.pack(torch.from_numpy(blocks), "q4_0").to("aule")
    w = torch.from_numpy(decoded(blocks[:7], "q4_0"))
    numbers = quantized.dequantize(packed, "q4_0", 32, torch.float16).cpu()
    assert torch.equal(numbers, w.half().repeat(n // 7 + 1, 1)[:n])
    x = torch.randn(1, 32)
    out = quantized.linear(x.to("aule"), packed, "q4_0").cpu()[0]
    expected, tolerance = bound(x, w.double(), w.double().abs(), None, torch.float32)
    check(out[:7], expected[0], tolerance[0])
    assert torch.equal(out, out[:7].repeat(n // 7 + 1)[:n])


def test_nothing_to_do():
    packed, _, _ = weights("q6_k", 6, 256)
    device = {"device": "aule"}
    assert quantized.linear(torch.empty(0, 256, **device), packed, "q6_k").shape == (0, 6)
    assert quantized.linear(torch.empty(4, 256, **device), packed[:0], "q6_k").shape == (4, 0)
    assert quantized.dequantize(packed[:0], "q6_k", 256).shape == (0, 256)
    assert quantized.rows(packed, torch.empty(0, 3, dtype=torch.int64, **device), "q6_k", 256).shape == (0, 3, 256)
    empty = torch.empty(6, 0, dtype=torch.uint8, **device)
    bias = torch.randn(6)
    out = quantized.linear(torch.empty(2, 0, **device), empty, "q6_k", bias.to("aule"))
    assert torch.equal(out.cpu(), bias.expand(2, 6))
    ids = torch.empty(0, 2, dtype=torch.int32, **device)
    x = torch.empty(0, 256, **device, requires_grad=True)
    out = quantized.linear_by_expert(x, packed[None], ids, "q6_k")
    assert out.shape == (0, 2, 6)
    out.sum().backward()
    assert x.grad.shape == (0, 256)
    x = torch.randn(3, 256, **device, requires_grad=True)
    ids = torch.zeros(3, 2, dtype=torch.int32, **device)
    quantized.linear_by_expert(x, packed[None, :0], ids, "q6_k").sum().backward()
    assert not x.grad.any()


def test_indices_out_of_range_are_reported():
    packed, _, _ = weights("q5_0", 6, 32)
    with pytest.raises(IndexError, match="quantized_rows"):
        quantized.rows(packed, torch.tensor([0, 6], device="aule"), "q5_0", 32)
        torch.aule.synchronize()
    with pytest.raises(IndexError, match="quantized_linear_by_expert"):
        x, ids = torch.ones(2, 32, device="aule"), torch.tensor([[0], [-1]], device="aule")
        quantized.linear_by_expert(x, packed[None], ids, "q5_0")
        torch.aule.synchronize()


def test_what_does_not_fit_is_refused():
    packed, _, _ = weights("q4_0", 6, 64)
    x = torch.ones(2, 64, device="aule")
    with pytest.raises(ValueError, match="expected format to be one of .*q4_0.*, but got q9"):
        quantized.linear(x, packed, "q9")
    with pytest.raises(RuntimeError, match="multiple of 256 values"):
        quantized.linear(x, packed, "q4_k")
    with pytest.raises(RuntimeError, match="packed rows of 48 bytes for 64 values of q4_0"):
        quantized.linear(x, packed[:, :36], "q4_0")
    with pytest.raises(RuntimeError, match="2-D of Byte"):
        quantized.linear(x, packed.view(torch.int8), "q4_0")
    with pytest.raises(RuntimeError, match="Float, Half or BFloat16"):
        quantized.linear(x.long(), packed, "q4_0")
    with pytest.raises(RuntimeError, match="bias"):
        quantized.linear(x, packed, "q4_0", x[0])
    with pytest.raises(RuntimeError, match="device"):
        quantized.linear(x, packed.cpu(), "q4_0")


def test_packing_is_taken_back():
    for format, form in FORMATS.items():
        k = 3 * form.values
        blocks = torch.from_numpy(random_blocks(generator(), format, 2, 5, k))
        packed = quantized.pack(blocks, format)
        assert packed.shape == (2, 5, form.packed_row_bytes(k))
        assert packed.numel() <= blocks.numel() + 15 * 10
        assert torch.equal(quantized.unpack(packed, format, k), blocks)
    with pytest.raises(ValueError, match="whole blocks of q8_0, which have 34 bytes"):
        quantized.pack(torch.zeros(3, 35, dtype=torch.uint8), "q8_0")
    with pytest.raises(TypeError, match="uint8"):
        quantized.pack(torch.zeros(3, 34), "q8_0")
    with pytest.raises(ValueError, match="packed rows of 64 values of q8_0"):
        quantized.unpack(torch.zeros(3, 34, dtype=torch.uint8), "q8_0", 64)


def test_operators_are_described_to_the_compiler():
    packed, _, _ = weights("q8_0", 6, 64)
    x = torch.randn(3, 64, device="aule", requires_grad=True)
    bias = torch.randn(6, device="aule", requires_grad=True)
    ops, tests = torch.ops.aule, ("test_schema", "test_faketensor")
    ids = torch.zeros(3, 2, dtype=torch.int64, device="aule")
    for op, *arguments in (
        (ops.quantized_linear, x, packed, "q8_0", bias, (), ()),
        (ops.quantized_matmul, torch.randn(3, 6, device="aule"), packed, "q8_0", 64, (), ()),
        (ops.quantized_dequantize, packed, "q8_0", 64, torch.float16, (), ()),
        (ops.quantized_rows, packed, ids, "q8_0", 64, torch.float32, (), ()),
        (ops.quantized_linear_by_expert, x, packed[None], ids, "q8_0", (), ()),
        (ops.quantized_matmul_by_expert, torch.randn(3, 2, 6, device="aule"), packed[None], ids, "q8_0", 64, (), ()),
    ):
        torch.library.opcheck(op.default, tuple(arguments), test_utils=tests)
    by_expert = (x, packed[None], ids, "q8_0", (), ())
    torch.library.opcheck(ops.quantized_linear_by_expert.default, by_expert, test_utils="test_aot_dispatch_dynamic")


def test_the_module_is_loaded_on_demand():
    assert torch_aule.quantized is quantized
