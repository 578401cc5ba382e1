"""PyTorch's own operator database on the device, against the CPU: one test an entry."""

import pytest
import torch

import skips
from opinfo_runner import ENTRIES, has_direction, pick_samples, run_entry, settle_saturation

SAMPLES = 4

# Gradients are compared for what models are made of.
BACKWARD = """
    __getitem__ __radd__ __rdiv__ __rmul__ __rsub__ abs add addcdiv addcmul addmm amax amin as_strided baddbmm bmm
    broadcast_to cat cholesky cholesky_inverse cholesky_solve chunk
    clamp clone contiguous copysign cos cumsum diff div.no_rounding_mode div.floor_rounding div.trunc_rounding einsum
    erf exp expand expand_as expm1 flatten flip gather
    index_add index_select lerp linalg.cholesky linalg.cholesky_ex linalg.det linalg.eigh linalg.inv
    linalg.inv_ex linalg.lstsq.grad_oriented linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve
    linalg.matrix_power linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
    linalg.solve_triangular linalg.tensorinv linalg.tensorsolve linspace log log1p log_softmax logdet logsumexp lu
    lu_solve lu_unpack masked.softmax masked_fill
    masked_select matmul matrix_exp max.reduction_with_dim maximum mean min.reduction_with_dim minimum mm movedim mul
    mv narrow
    native_layer_norm neg nn.functional.avg_pool2d nn.functional.batch_norm
    nn.functional.binary_cross_entropy_with_logits
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.cosine_similarity
    nn.functional.cross_entropy nn.functional.elu nn.functional.embedding nn.functional.gelu nn.functional.glu
    nn.functional.group_norm nn.functional.hardswish nn.functional.huber_loss nn.functional.instance_norm
    nn.functional.kl_div nn.functional.l1_loss nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear
    nn.functional.logsigmoid nn.functional.max_pool2d nn.functional.mish nn.functional.mse_loss nn.functional.nll_loss
    nn.functional.normalize nn.functional.pad.constant nn.functional.prelu nn.functional.relu nn.functional.relu6
    nn.functional.rms_norm nn.functional.scaled_dot_product_attention nn.functional.selu nn.functional.silu
    nn.functional.smooth_l1_loss nn.functional.softmin nn.functional.softplus nn.functional.softsign
    nn.functional.tanhshrink nn.functional.unfold norm outer permute pow prod reciprocal repeat repeat_interleave
    reshape roll rsqrt rsub scatter scatter_add select sigmoid sign sin slice softmax split sqrt square squeeze stack
    std sub sum t take_along_dim tan tanh transpose triangular_solve tril triu unbind unflatten unsqueeze var view where
""".split()

# Other dtypes, for operators that have a kernel of their own for each storage type or compute differently.
OTHER_DTYPES = {
    torch.float16: """add addmm amax bmm cat clamp cumsum div.no_rounding_mode exp gather log_softmax masked_fill
    matmul mean mul
        nn.functional.gelu nn.functional.layer_norm nn.functional.linear nn.functional.silu softmax sum where""",
    torch.bfloat16: """add addmm amin bmm cat div.no_rounding_mode exp index_select log_softmax matmul mul
    nn.functional.gelu
        nn.functional.layer_norm nn.functional.linear rsqrt scatter softmax sub sum tanh where""",
    torch.int64: """abs add all amax any argmax argsort bitwise_and cat clamp cumsum eq floor_divide gather
        index_select lt masked_fill mul ne neg prod remainder scatter sort sub sum where""",
    torch.int32: "add bitwise_xor cat div.floor_rounding maximum minimum mul pow sign sum where",
    torch.uint8: "add bitwise_not cat eq gt mul sum where",
    torch.bool: "all any bitwise_or cat eq logical_and logical_not masked_select nonzero sum where",
    torch.float64: """add atan2 exp hypot linalg.eig linalg.inv linalg.lstsq linalg.lu_factor
        linalg.solve matmul mul nextafter
        nn.functional.adaptive_avg_pool2d nn.functional.adaptive_max_pool2d nn.functional.avg_pool3d
        nn.functional.interpolate.bicubic nn.functional.max_pool2d softmax sum""",
    torch.complex64: """abs acosh add addcmul angle atan cat complex cumprod cumsum div.no_rounding_mode eq exp gather
        index_add lerp linalg.cholesky linalg.det linalg.eig linalg.inv linalg.lstsq linalg.lu linalg.qr
        linalg.solve linalg.solve_triangular
        linalg.vector_norm log masked_fill mean mul ne nn.functional.conv2d pow prod reciprocal scatter
        sigmoid sin sqrt std sum tanh to var where""",
}


def check(name: str, outcome, refused: dict, unsupported: dict) -> None:
    """The outcome must be native, or exactly what the skip list says."""
    if outcome.status == "none":
        pytest.skip("the database has no sample for this dtype")
    if name in refused:
        listed = f"{outcome.status}, listed as refused: {refused[name]}. {outcome.detail}"
        assert outcome.status == "refused", listed
        pytest.xfail(refused[name])
    if name in unsupported:
        assert outcome.status == "unsupported", f"{outcome.status}, listed as: {unsupported[name]}. {outcome.detail}"
        pytest.xfail(unsupported[name])
    assert outcome.status == "native", f"{outcome.status}: {outcome.detail}"


@pytest.mark.parametrize("name", ENTRIES)
def test_forward(device, name):
    if name in skips.not_comparable:
        pytest.skip(skips.not_comparable[name])
    check(name, run_entry(ENTRIES[name], limit=SAMPLES), skips.refused, skips.unsupported)


@pytest.mark.parametrize("name", [name for name in BACKWARD if name in ENTRIES])
def test_backward(device, name):
    if name in skips.refused or name in skips.unsupported or name in skips.not_comparable:
        pytest.skip("its forward is on the skip list")
    check(name, run_entry(ENTRIES[name], limit=SAMPLES, direction="backward"), skips.backward_refused, {})


@pytest.mark.parametrize(
    "dtype, name",
    [
        pytest.param(dtype, name, id=f"{str(dtype).removeprefix('torch.')}-{name}")
        for dtype, names in OTHER_DTYPES.items()
        for name in names.split()
        if name in ENTRIES and dtype in ENTRIES[name].dtypes
    ],
)
def test_other_dtypes(device, dtype, name):
    if name in skips.refused or name in skips.unsupported or name in skips.not_comparable:
        pytest.skip("its float32 forward is on the skip list")
    check(name, run_entry(ENTRIES[name], dtype, limit=2), {}, {})


def test_only_products_beyond_the_largest_float8_are_settled():
    op = ENTRIES["torch._scaled_mm"]
    sample = pick_samples(op, torch.float8_e4m3fn, 1, False)[0]
    one = torch.ones(())
    sample.args = ((torch.eye(16) * 30).to(torch.float8_e4m3fn), one, one)
    sample.input = torch.diag(torch.tensor([30.0, -30.0, 1.0]).repeat(6)[:16]).to(torch.float8_e4m3fn)
    ours = torch.diag(torch.tensor([448.0, -448.0, 30.0]).repeat(6)[:16]).to(torch.float8_e4m3fn)
    theirs = torch.full((16, 16), torch.nan).to(torch.float8_e4m3fn)
    settle_saturation(op, sample, ours, theirs)
    settled = (ours.float().abs() == 448).float()
    assert torch.equal(theirs.float().isnan(), settled == 0)
    assert torch.equal(theirs.float().nan_to_num(0.0), ours.float() * settled)


def check_form(name: str, outcome) -> None:
    """As check(); a form may be native where the operator is listed for a sample that this form does not see."""
    if outcome.status != "native":
        check(name, outcome, skips.refused, {})


@pytest.mark.parametrize("name", [name for name, op in ENTRIES.items() if has_direction(op, torch.float32, "in_place")])
def test_in_place(device, name):
    if name in skips.not_comparable:
        pytest.skip(skips.not_comparable[name])
    check_form(name, run_entry(ENTRIES[name], torch.float32, limit=1, direction="in_place"))


@pytest.mark.parametrize("name", [name for name, op in ENTRIES.items() if has_direction(op, torch.float32, "out")])
def test_out(device, name):
    if name in skips.not_comparable:
        pytest.skip(skips.not_comparable[name])
    check_form(name, run_entry(ENTRIES[name], torch.float32, limit=1, direction="out"))
