"""Long rows and many rows: kernels whose loops' length the data decides.

Some drivers end a shader's loops after 65535 iterations of one invocation, without a word (`max_loop_iterations` of
the device's properties; lavapipe of Mesa 22.3). Every family here is compared with float64 on the CPU over rows beyond
that. TORCH_AULE_LONG_TESTS=1 adds sizes; TORCH_AULE_LONG_ROWS=n,m replaces them, for runs with a small
limit by TORCH_AULE_LIMITS.
"""

import functools
import os

import pytest
import torch
import torch.nn.functional as F

from helpers import assert_close_to_float64, check_python, limited

LONG = os.environ.get("TORCH_AULE_LONG_TESTS", "0") not in ("", "0")
GIVEN = [int(n) for n in os.environ.get("TORCH_AULE_LONG_ROWS", "").split(",") if n]
LENGTHS = GIVEN or ([70_001, 200_003, 2**20 + 1, 2**21 + 3] if LONG else [200_003, 2**21 + 3])
SOME = LENGTHS if LONG or GIVEN else LENGTHS[:1]  # where the reference is slow
MANY = 5 * GIVEN[-1] if GIVEN else 1_000_003
WIDE = GIVEN[-1] if GIVEN else 140_001  # rows that a column of many columns has
# Sums of n terms in blocks lose a few units of the last place.
check = functools.partial(assert_close_to_float64, tolerance=2e-5)


def rows_of(n):
    """How many rows of n: few, so that the reference does not take long."""
    return 3 if n < 300_000 else 1


def integers(*size, low=-9, high=10, dtype=torch.int64):
    return torch.randint(low, high, size, dtype=dtype)


def signs(*size):
    return torch.randint(0, 2, size).mul(2).sub(1).float()


@pytest.mark.parametrize("n", LENGTHS)
def test_reductions(n):
    x = torch.randn(rows_of(n), n)
    check(lambda t: t.sum(1), x, scale=n**0.5)
    check(lambda t: (t.amax(1), t.var(1), t.logsumexp(1), t.norm(dim=1), torch.linalg.vector_norm(t, 3)), x)
    check(lambda t: (t.argmax(1), t.argmin(), t.max(1).indices, t.count_nonzero(1), (t > 4).any(1)), x, wide=False)
    check(lambda t: tuple(t.aminmax(dim=1)), x.bfloat16(), tolerance=0)
    check(lambda t: t.prod(1), signs(rows_of(n), n), tolerance=0)
    i = integers(rows_of(n), n, dtype=torch.int8)
    check(lambda t: (t.sum(1), t.max(1).values, t.sum()), i)


def test_sums_of_very_long_rows():
    x = integers(2**20 if GIVEN else 2**26, dtype=torch.int8)
    check(lambda t: t.sum(), x)
    x = x.view(256, -1)  # as many rows as a device needs to be full
    check(lambda t: t.sum(1), x)
    x = integers(7, 300, WIDE // 1400 + 1, dtype=torch.int8).repeat(100, 1, 1)
    check(lambda t: t.sum((0, 2)), x)  # two dimensions: addresses by division
    x = torch.randn(WIDE, 256).bfloat16()
    check(lambda t: (t.var(0), t.mean(0)), x, tolerance=8e-3)


def test_reductions_of_many_rows():
    x = torch.randn(MANY, 3)
    check(lambda t: (t.sum(1), t.amax(1), t.var(1)), x)
    check(lambda t: t.sum(0), x, scale=MANY**0.5)
    check(lambda t: (t.argmax(1), t.argmin(0)), x, wide=False)


@pytest.mark.parametrize("n", LENGTHS)
def test_scans(n):
    check(lambda t: (t.cumsum(0), *t.cummax(0)), integers(n, low=-1000, high=1000))
    check(lambda t: t.cumsum(0), torch.randn(n), tolerance=1e-4)
    check(lambda t: t.cumprod(0), signs(n), tolerance=0)
    check(lambda t: t.logcumsumexp(0), torch.randn(n))
    check(lambda t: t.cumsum(0), integers(n, low=0, high=2, dtype=torch.bool))


def test_scans_of_many_rows():
    n = LENGTHS[0]
    check(lambda t: t.cumsum(1), integers(40, n))
    check(lambda t: (t.cumsum(0), *t.cummin(0)), integers(n, 40, dtype=torch.int32))
    check(lambda t: t.cumsum(1), torch.randn(MANY, 3))


@pytest.mark.parametrize("n", LENGTHS)
def test_softmax(n):
    x = torch.randn(rows_of(n), n) * 3
    check(lambda t: t.softmax(1), x, gradients=True)
    check(lambda t: t.log_softmax(1), x, gradients=True)
    check(lambda t: t.log_softmax(0), x.t().contiguous(), gradients=True)
    check(lambda t: t.softmax(-1), x.bfloat16(), tolerance=2e-2, gradients=True)


def test_softmax_of_infinite_rows(device):
    x = torch.full((3, LENGTHS[0]), -float("inf"))
    x[1, 5] = 0.0
    assert x.to(device).softmax(1).cpu().isnan().all(1).tolist() == [True, False, True]
    assert x.to(device).log_softmax(1).cpu().isnan().all(1).tolist() == [True, False, True]
    safe = torch._safe_softmax(x.to(device), 1).cpu()
    assert safe.sum(1).tolist() == [0.0, 1.0, 0.0]
    x[0, 3], x[2, 7] = float("nan"), float("inf")
    assert x.to(device).softmax(1).cpu().isnan().any(1).tolist() == [True, False, True]


@pytest.mark.parametrize("n", SOME)
def test_norms(n):
    x, w, b = torch.randn(rows_of(n), n) + 2, torch.randn(n), torch.randn(n)
    check(lambda x, w, b: F.layer_norm(x, (n,), w, b), x, w, b, gradients=True)
    check(lambda x, w: F.rms_norm(x, (n,), w), x, w, gradients=True)
    half = [t.bfloat16() for t in (x, w, b)]
    check(lambda x, w, b: F.layer_norm(x, (n,), w, b), *half, tolerance=2e-2, gradients=True)
    check(lambda x: F.layer_norm(x, (n,)), x, gradients=True)


@pytest.mark.parametrize("n", LENGTHS)
def test_norms_of_channels(n):
    x, w, b = torch.randn(2, 4, n // 2) + 2, torch.randn(4), torch.randn(4)
    check(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b, gradients=True)
    if n not in SOME:
        return
    check(lambda x, w, b: F.group_norm(x, 2, w, b), x, w, b, gradients=True)
    check(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), x, w, b, gradients=True)


@pytest.mark.parametrize("width", [5, 8] if LONG else [8])
def test_norms_of_many_rows(width):
    x, w, b = torch.randn(MANY, width) + 1, torch.randn(width), torch.randn(width)
    check(lambda x, w, b: F.layer_norm(x, (width,), w, b, eps=0.1), x, w, b, gradients=True, tolerance=1e-4)
    check(lambda x, w: F.rms_norm(x, (width,), w), x, w, gradients=True, tolerance=1e-4)
    check(lambda x: x.softmax(1), x, gradients=True)


@pytest.mark.parametrize("width", [65, 260] if LONG else [65])  # the second: four columns to an invocation
def test_norm_parameters_of_many_rows(width):
    """More rows than one invocation may walk, of so many columns that each has one invocation."""
    n = GIVEN[0] if GIVEN else 70_001
    x, w, b = torch.randn(n, width) + 1, torch.randn(width), torch.randn(width)
    check(lambda x, w, b: F.layer_norm(x, (width,), w, b), x, w, b, gradients=True, tolerance=1e-4)
    check(lambda x, w: F.rms_norm(x, (width,), w), x.bfloat16(), w.bfloat16(), gradients=True, tolerance=2e-2)
    check(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, w, b, gradients=True, tolerance=1e-4)


@pytest.mark.parametrize("classes", SOME)
def test_losses_over_many_classes(classes):
    x, target = torch.randn(5, classes), torch.randint(classes, (5,))
    for reduction in ("mean", "none"):
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, target, gradients=True)
    check(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), x, target, gradients=True)
    check(lambda x, t, w: F.nll_loss(x, t, w.detach()), x, target, torch.rand(classes), gradients=True)
    check(lambda x, t: F.cross_entropy(x, t), x.bfloat16(), target, tolerance=2e-2, gradients=True)


def test_losses_over_many_rows():
    x, target = torch.randn(MANY, 7), torch.randint(7, (MANY,))
    for reduction in ("mean", "none"):
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction), x, target, gradients=True)
    negative = -x.abs()  # as logarithms are: a mean of both signs would be near zero
    check(lambda x, t, w: F.nll_loss(x, t, w.detach()), negative, target, torch.rand(7), gradients=True)


@pytest.mark.parametrize("n", LENGTHS)
def test_selection(n):
    mask, x = torch.rand(n) < 0.3, torch.randn(n)
    check(lambda m: (m.nonzero(), m.sum()), mask)
    check(lambda x, m, s: (x[m], x.masked_select(m), x.masked_scatter(m, s)), x, mask, torch.randn(n), tolerance=0)
    check(lambda t: torch.unique(t, return_inverse=True, return_counts=True), integers(n, low=0, high=n // 3))
    check(lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True), integers(n, low=0, high=3))
    check(lambda t: torch.repeat_interleave(t), integers(n, low=0, high=3))


@pytest.mark.parametrize("n", SOME)
def test_order(n):
    x = torch.randn(n)
    check(lambda t: tuple(t.sort(stable=True)), integers(n, low=0, high=1000))
    check(lambda t: (t.topk(5).values, t.kthvalue(n // 2).values, t.median()), x, tolerance=0)
    check(lambda t: t.mode().values, integers(n, low=0, high=100))
    check(lambda s, t: torch.searchsorted(s, t), x.sort().values, torch.randn(n))
    between_edges = (x * 64).round() / 64 + 1 / 128  # at an edge one rounding would choose the bin
    check(lambda t: t.histc(10, -3, 3), between_edges, tolerance=0)
    check(lambda t: t.bincount(), integers(n, low=0, high=10))


def into(values, width=()):
    return torch.zeros(10, *width, device=values.device, dtype=values.dtype)


@pytest.mark.parametrize("n", LENGTHS)
def test_accumulation_with_many_duplicates(n):
    i, x = torch.randint(0, 10, (n,)), torch.randn(n)
    odd = integers(n, low=-3, high=3) * 2 + 1
    check(lambda i, x: into(x).index_add(0, i, x), i, x, tolerance=1e-4)
    check(lambda i, x: into(x).index_put((i,), x, accumulate=True), i, x, tolerance=1e-4)
    if torch.aule.get_device_properties().float64:
        check(lambda i, x: (into(x).index_add(0, i, x), into(x).scatter_reduce(0, i, x, "amax")), i, x.double())
    check(lambda i, x: into(x).add(1).scatter_reduce(0, i, x, "prod"), i, odd)  # modulo 2^64
    check(lambda i, x: into(x).index_add(0, i, x), i, odd)


@pytest.mark.parametrize("columns", [64, 65])
def test_accumulation_of_rows(columns):
    n = LENGTHS[0] // 2
    i, x = torch.randint(0, 10, (n,)), torch.randn(n, columns)
    check(lambda i, x: into(x, (columns,)).index_add(0, i, x), i, x, tolerance=1e-4)
    check(lambda i, x: into(x, (columns,)).index_put((i,), x, accumulate=True), i, x, tolerance=1e-4)
    check(lambda i, w: F.embedding(i, w), i, torch.randn(10, columns), gradients=True, tolerance=1e-4)
    # Walks over two dimensions that do not merge into one.
    i = torch.randint(0, 10, (n // 100, 200))[:, ::2]
    x = torch.randn(n // 100, 2, 100, columns)[:, 0]
    check(lambda i, x: into(x, (columns,)).index_put((i,), x, accumulate=True), i, x, tolerance=1e-4)


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("n", LENGTHS)
def test_deterministic_writes(n, deterministic):
    """The last of equals is written, whatever the walk is cut into; sums have one order."""
    i, x = torch.randint(0, 10, (n,)), torch.randn(n)
    check(lambda i, x: (into(x).index_put((i,), x), into(x).scatter(0, i, x)), i, x, tolerance=0)
    check(lambda i, x: into(x).index_add(0, i, x), i, x, tolerance=1e-4)
    i, x = i.to("aule"), x.to("aule")
    assert torch.equal(into(x).index_add(0, i, x), into(x).index_add(0, i, x))


@pytest.mark.parametrize("n", LENGTHS)
def test_movement(n):
    x = torch.randn(n)
    check(lambda t: (t.flip(0), t.roll(77), torch.cat([t, t]), t[::2].clone()), x, tolerance=0)
    check(lambda t: (t.view(-1, 1).repeat(1, 3), t.view(1, -1).expand(3, -1).reshape(-1)), x, tolerance=0)
    check(lambda t: torch.full_like(t, 3.0)[::2].contiguous(), x, tolerance=0)
    check(lambda t: torch.renorm(t.view(1, -1), 2, 0, 1.0), x)


def test_overlapping_windows():
    n = LENGTHS[0] // 2
    check(lambda t: t.unfold(0, n, n // 8), torch.randn(2 * n), gradients=True)


def test_gradients_of_resampling_and_padding():
    """A cell of the input that very many outputs read."""
    n = LENGTHS[0] // 8
    side = int(LENGTHS[0] ** 0.5)
    for mode in ("nearest", "bilinear", "bicubic"):
        resize = functools.partial(F.interpolate, size=(side, side), mode=mode)
        check(resize, torch.randn(2, 1, 1, 2), gradients=True, sums=True)
    resize = functools.partial(F.interpolate, size=n, mode="linear", align_corners=True)
    check(resize, torch.randn(1, 2, 3), gradients=True, sums=True)
    x = torch.randn(1, 2, LENGTHS[0])  # edges repeated: the loop is as long as the padding
    check(lambda t: F.pad(t, (3, 2), mode="replicate"), x, gradients=True)
    check(lambda t: F.pad(t, (2, 3), mode="reflect"), x, gradients=True)


@pytest.mark.skipif(bool(GIVEN), reason="is the run that another test started")
def test_plans_for_small_limits():
    """This file once more, planned for a device that allows 1024 iterations: cuts in several steps, on any driver."""
    if not torch.aule.get_device_properties().kind == "cpu":
        pytest.skip("a real GPU: no driver of one is known to end loops, and its planners' other paths need no limit")
    # Gradients of resampling are refused there: a cell of 750 outputs cannot be cut.
    options = ["-q", "-x", "-p", "no:cacheprovider", "-k", "not resampling", __file__]
    code = f"import pytest, sys\nsys.exit(pytest.main({options!r}))"
    check_python(code, TORCH_AULE_LONG_ROWS="6007", **limited("max_loop_iterations=1024"))
