"""Dtypes that an operator has with torch.cuda and not with the CPU, which the operator database's lists show.

The reference is the same operator in float64 (complex128, int64) on the CPU; the mode is the default one.
"""

import itertools
import warnings

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from helpers import to_device
from opinfo_runner import ENTRIES

WIDE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128, torch.complex128: torch.complex128}
REFUSED = {
    "Unsupported dtype Half": {(name, torch.float16) for name in ENTRIES if name.startswith("fft.")},  # by torch itself
    "has a kernel neither": {  # a hook of CUDA's; scaled_dot_product_attention is the way in
        ("torch.ops.aten._efficient_attention_forward", dtype)
        for dtype in (torch.float16, torch.bfloat16, torch.float32)
    },
    "dropout_p is not supported": {
        ("torch.ops.aten._flash_attention_forward", dtype) for dtype in (torch.float16, torch.bfloat16)
    },
}
RANDOM = ("nn.functional.rrelu",)


def without_nan(sample):
    """nansum and nanmean, which the CPU has for real numbers only."""
    x = sample.input.to(WIDE[sample.input.dtype])
    args, kwargs = sample.args, dict(sample.kwargs)
    dtype = kwargs.pop("dtype", None)
    total = torch.where(x.isnan(), 0, x).sum(*args, **kwargs, dtype=dtype and WIDE.get(dtype, dtype))
    return [total]


def mean_without_nan(sample):
    count = sample.transform(lambda t: (~t.isnan()).double() if isinstance(t, torch.Tensor) else t)
    kwargs = {k: v for k, v in count.kwargs.items() if k != "dtype"}
    return [without_nan(sample)[0] / count.input.sum(*count.args, **kwargs)]


REFERENCES = {"nansum": without_nan, "nanmean": mean_without_nan}
CELLS = [
    pytest.param(name, dtype, id=f"{name}-{str(dtype).removeprefix('torch.')}")
    for name, op in sorted(ENTRIES.items())
    for dtype in sorted(set(op.dtypesIfCUDA) - set(op.dtypes), key=str)
    if not (dtype.is_floating_point and dtype.itemsize == 1)
]


def of_dtype(dtype):
    """What a sample's tensors and dtypes become: numbers of the kind that `dtype` is of change their width."""

    def change(value):
        if isinstance(value, torch.Tensor) and (
            value.dtype.is_complex if dtype.is_complex else value.dtype.is_floating_point
        ):
            return value.detach().to(dtype)
        return value

    return change


def samples_of(op, dtype):
    torch.manual_seed(5)
    drawn = dtype
    if dtype in (torch.float16, torch.bfloat16, torch.complex32):
        drawn = torch.complex64 if dtype.is_complex else torch.float32
    return list(itertools.islice(op.sample_inputs("cpu", drawn), 3))


def call(op, sample, change):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = op.op(*tree_map(change, (sample.input, *sample.args)), **tree_map(change, sample.kwargs))
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


@pytest.mark.sampled(40)
@pytest.mark.parametrize("name, dtype", CELLS)
def test_dtype(not_strict, name, dtype):
    op = ENTRIES[name]
    narrow = of_dtype(dtype)
    compared = 0
    for sample in samples_of(op, dtype):
        sample = sample.transform(narrow)
        refusal = next((text for text, cells in REFUSED.items() if (name, dtype) in cells), None)
        if refusal is not None:
            try:
                call(op, sample, to_device)
            except (RuntimeError, NotImplementedError) as error:
                assert refusal in str(error)
                compared += 1
            continue
        results = call(op, sample, to_device)
        wide = WIDE.get(dtype, torch.float64)
        widen = lambda value: (  # noqa: E731
            value.to(wide) if isinstance(value, torch.Tensor) and value.dtype == dtype else value
        )
        expected = REFERENCES.get(name, lambda sample: call(op, sample, widen))(sample)  # noqa: B023
        assert len(results) == len(expected)
        for r, e in zip(results, expected):
            assert r.device.type == "aule" and r.shape == e.shape
            compared += 1
            if name in RANDOM:
                continue
            if r.is_floating_point() or r.is_complex():
                # Steps of the largest value: results are rounded in between, to the dtype that was asked for.
                step, e = torch.finfo(r.dtype).eps, e.to(r.dtype)
                fits = e.to(wide).abs().isfinite()
                r, e = r.cpu()[fits].to(wide), e[fits].to(wide)
                scale = max(1.0, e.abs().max().item()) if e.numel() else 1.0
                torch.testing.assert_close(r, e, rtol=4 * step, atol=8 * step * scale)
            else:
                known = e.double().isfinite()  # not so where integers are divided by zero
                assert torch.equal(r.cpu().double()[known], e.double()[known])
    assert compared, "the database has samples"
