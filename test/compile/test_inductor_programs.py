"""torch.compile over the small programs of support/compiled/: a sample; all of them with TORCH_AULE_LONG_TESTS=1."""

import os

import pytest
import torch

from helpers import needs_shader_compiler

pytest.importorskip("torch._inductor.codegen.simd")
needs_shader_compiler()

import inductor_programs  # noqa: E402
from compiled import all_rows  # noqa: E402

# Every row in every mode would take half an hour: a row in one of its modes, and of these a share.
SHARE = 1 if os.environ.get("TORCH_AULE_LONG_TESTS", "0") not in ("", "0") else 40

# What failed once: always.
FAULTS = {
    "pointwise: special values, arithmetic": "static",
    "integers: int32 against int64": "static",
    "integers: reductions, uint8": "static",
    "indexing: adding halves": "static",
    "indexing: adding float64": "static",
    "sizes: rolled": "dynamic",
    "sizes: standard scores": "grad",
}


def cases():
    """Names of rows and modes. Several forms of kernel of one row stand apart in the sample."""
    chosen = [
        (row, mode)
        for number, row in enumerate(all_rows())
        for place, mode in enumerate(inductor_programs.modes_of(row))
        if (number + 5 * place) % SHARE == 0 or FAULTS.get(row.name) == mode
    ]
    return [pytest.param(row, mode, id=f"{row.name}, {mode}") for row, mode in chosen]


@pytest.fixture(autouse=True)
def fresh():
    """What a row compiled is forgotten, and no cache serves what an earlier run made."""
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()


@pytest.mark.sampled(15)
@pytest.mark.parametrize("row, mode", cases())
def test_program(device, row, mode):
    if row.refused:
        with pytest.raises(inductor_programs.Refused, match=row.refused):
            inductor_programs.check(row, mode)
        return
    inductor_programs.check(row, mode)


def test_rows_are_many_and_named_once():
    rows = all_rows()
    assert len(rows) > 900 and len({row.name for row in rows}) == len(rows)
    assert FAULTS.keys() <= {row.name for row in rows}
