"""Attention written in Triton (benchmarks/studies/triton_kernels.py): results of products are operands of others."""

import sys

import pytest
import torch

from helpers import ROOT

triton = pytest.importorskip("triton", reason="triton is not installed")
sys.path.insert(0, str(ROOT / "benchmarks" / "studies"))
from triton_kernels import attention_kernel  # noqa: E402

pytestmark = [pytest.mark.current_lavapipe, pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION")]
EPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n,d,rows,columns,warps", [(150, 32, 64, 32, 1), (77, 64, 32, 16, 2), (64, 16, 64, 64, 4)])
def test_attention(device, n, d, rows, columns, warps, causal, dtype):
    heads = 2
    q, k, v = (torch.randn(heads, n, d).to(dtype) for _ in range(3))
    out = torch.full((heads, n, d), float("nan"), dtype=dtype, device=device)
    attention_kernel[(triton.cdiv(n, rows), heads)](
        *(t.to(device) for t in (q, k, v)), out, d**-0.5, n, CAUSAL=causal, D=d, BM=rows, BN=columns, num_warps=warps
    )
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.mT * d**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -float("inf"))
    p = scores.softmax(-1)
    # Probabilities and the result are rounded to the dtype. A score's sum has d roundings of its terms in float32,
    # which exp turns into relative errors. exp2 has 3 + 2 |x| units in the last place; the sums have n of them.
    spread = (q.abs() @ k.abs().mT * d**-0.5).amax(-1, keepdim=True)
    reach = 2 * scores.masked_fill(scores.isinf(), 0).abs().amax(-1, keepdim=True) * 1.4427
    relative = 2 * EPS[dtype] + 2.0**-24 * (spread * (d + 4) + 2 * reach + n + 16)
    bound = relative * (p @ v.abs()) + EPS[dtype] * (p @ v).abs() + 2.0**-25
    assert ((out.cpu().double() - p @ v).abs() <= bound).all()
