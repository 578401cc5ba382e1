"""Fourier transforms against complex128 on the CPU: every length to 2,048, long ones, layouts, norms, gradients."""

import math

import pytest
import torch

from helpers import assert_close, check_program, layouts, like_strided, without
from torch_aule import _C

pytestmark = pytest.mark.validated

WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def wide(t: torch.Tensor) -> torch.Tensor:
    return t.to(WIDE.get(t.dtype, t.dtype))


def check(function, x: torch.Tensor, n: int) -> None:
    """The relative error in the 2-norm of the device's result is that of a transform of n points."""
    actual, expected = function(like_strided(x)).cpu(), function(wide(x))
    assert wide(actual).dtype == expected.dtype and actual.shape == expected.shape
    error = (wide(actual) - expected).norm() / expected.norm()
    allowed = 5 * torch.finfo(actual.dtype).eps * math.log2(max(n, 2))
    assert error <= allowed, f"{tuple(x.shape)}: relative error {error}, allowed {allowed}"


def check_length(n: int, dtype=torch.complex64, count: int = 3) -> None:
    """Complex and real transforms of one length, both ways."""
    x = torch.randn(count, n, dtype=dtype)
    check(torch.fft.fft, x, n)
    check(torch.fft.ifft, x, n)
    check(torch.fft.rfft, x.real.clone(), n)
    check(lambda t: torch.fft.irfft(t, n), torch.randn(count, n // 2 + 1, dtype=dtype), n)


@pytest.mark.parametrize("first", range(1, 2049, 256))
def test_every_short_length(first):
    for n in range(first, first + 256):
        x = torch.randn(2, n, dtype=torch.complex64)
        check(torch.fft.fft, x, n)
        check(torch.fft.rfft, x.real.clone(), n)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 13, 16, 17, 30, 34, 100, 121, 256])
def test_short_lengths_of_all_kinds(n):
    check_length(n)
    check(torch.fft.fft, torch.randn(5, n), n)
    check(torch.fft.ihfft, torch.randn(5, n), n)


@pytest.mark.parametrize("n", [1009, 1024, 4096, 4099, 3 << 12, 28561, 1 << 16, 65537, 3 << 15])
def test_long_lengths(n):
    check_length(n, count=1)


def test_random_lengths():
    for n in torch.randint(257, 100_000, (6,)).tolist():
        x = torch.randn(2, n, dtype=torch.complex64)
        check(torch.fft.fft, x, n)
        check(torch.fft.rfft, x.real.clone(), n)


def test_a_million_points():
    x = torch.randn(1 << 20, dtype=torch.complex64)
    check(torch.fft.fft, x, 1 << 20)
    check(lambda t: torch.fft.irfft(torch.fft.rfft(t)), x.real.clone(), 1 << 20)


@pytest.mark.float64
@pytest.mark.parametrize("n", [1, 2, 7, 16, 60, 243, 257, 1000, 4096, 10007])
def test_float64(device, n):
    check_length(n, torch.complex128)


@pytest.mark.parametrize("batch", [1, 70_001])
def test_batches(batch):
    x = torch.randn(batch, 6, dtype=torch.complex64)
    check(torch.fft.fft, x, 6)
    check(torch.fft.rfft, x.real, 6)
    check(torch.fft.fft, x.t().contiguous().t(), 6)


def test_no_signals(device):
    """MKL refuses these on the CPU."""
    x = torch.empty(0, 6, dtype=torch.complex64, device=device)
    assert torch.fft.fft(x).shape == (0, 6) and torch.fft.rfft(x.real).shape == (0, 4)
    assert torch.fft.irfft2(x[:, None].expand(0, 3, 6), s=(3, 5), dim=(2, 1)).shape == (0, 5, 3)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(x, dim=0)


def random_dims(ndim: int) -> list[int]:
    return torch.randperm(ndim)[: int(torch.randint(1, ndim + 1, ()))].tolist()


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_dimensions_and_norms(norm):
    for _ in range(3):
        shape = torch.randint(1, 24, (int(torch.randint(2, 5, ())),)).tolist()
        dims = random_dims(len(shape))
        size = math.prod(shape)
        for _, x in layouts(torch.randn(shape, dtype=torch.complex64)):
            check(lambda t: torch.fft.fftn(t, dim=dims, norm=norm), x, size)
            check(lambda t: torch.fft.ifftn(t, dim=dims, norm=norm), x, size)
            check(lambda t: torch.fft.irfftn(t, dim=dims, s=[shape[d] for d in dims], norm=norm), x, size)
        for _, x in layouts(torch.randn(shape)):
            check(lambda t: torch.fft.rfftn(t, dim=dims, norm=norm), x, size)
            check(lambda t: torch.fft.fftn(t, dim=dims, norm=norm), x, size)


def test_two_dimensions():
    x = torch.randn(3, 40, 72, dtype=torch.complex64)
    check(torch.fft.fft2, x, 72)
    check(lambda t: torch.fft.ifft2(t, dim=(0, 2)), x, 72)
    check(torch.fft.rfft2, torch.randn(2, 64, 51), 64)
    check(lambda t: torch.fft.hfft2(t, s=(18, 20)), torch.randn(18, 11, dtype=torch.complex64), 20)
    check(torch.fft.ihfft2, torch.randn(18, 20), 20)
    check(lambda t: torch.fft.fft(t, dim=0), torch.randn(1500, 24, dtype=torch.complex64), 1500)


def test_more_dimensions_than_a_launch_has():
    x = torch.randn(3, 4, 2, 4, 3, 3, 5, dtype=torch.complex64)[:, ::2, :, ::2, :, ::2]
    check(lambda t: torch.fft.fft(t, dim=-1), x, 5)
    check(lambda t: torch.fft.fftn(t.permute(3, 5, 0, 6, 1, 4, 2), dim=(1, 3, 6)), x, 20)


def test_sizes_that_cut_and_pad():
    x = torch.randn(4, 30, dtype=torch.complex64)
    for n in (7, 64):
        check(lambda t: torch.fft.fft(t, n), x, 64)
        check(lambda t: torch.fft.hfft(t, n), x, 64)
        check(lambda t: torch.fft.rfft(t.real, n), x, 64)


def test_conjugates_are_honoured():
    x = torch.randn(4, 30, dtype=torch.complex64)
    check(lambda t: torch.fft.fft(t.conj()), x, 30)
    check(lambda t: torch.fft.irfft(t.conj()), x, 58)
    check(lambda t: torch.fft.rfft(t.conj().imag), x, 30)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 34, 64])
def test_symmetry_of_real_signals(device, n):
    x = torch.randn(5, n)
    half = torch.fft.rfft(x.to(device)).cpu()
    ends = [0, n // 2] if n % 2 == 0 else [0]
    assert (half.imag[:, ends] == 0).all()
    full = torch.fft.fft(x.to(device)).cpu()
    assert_close(full[:, : n // 2 + 1], half, rtol=1e-4, atol=1e-4)
    assert_close(full[:, 1:].flip(1), full[:, 1:].conj().resolve_conj(), rtol=1e-4, atol=1e-4)
    # What the imaginary parts of the ends are makes no difference, and the input stays as it is.
    spoiled = half.clone()
    spoiled.imag[:, ends] = 1e3
    given = spoiled.to(device)
    assert_close(torch.fft.irfft(given, n), x, rtol=1e-4, atol=1e-5)
    assert torch.equal(given.cpu(), spoiled)


def test_results_lie_as_on_the_cpu(device):
    for x in (torch.randn(3, 4, 5), torch.randn(5, 3, 4).permute(1, 2, 0), torch.randn(4, 3, 5).transpose(0, 1)):
        z = x.to(torch.complex64)
        for dims in ([0], [1, 2], [2, 0], [0, 1, 2]):
            for function, t in (
                (lambda t: torch.ops.aten._fft_c2c(t, dims, 0, True), z),
                (lambda t: torch.ops.aten._fft_r2c(t, dims, 0, True), x),
                (lambda t: torch.ops.aten._fft_c2r(t, dims, 0, 2 * t.shape[dims[-1]] - 2), z),
            ):
                assert function(like_strided(t)).stride() == function(t).stride(), (x.stride(), dims)


def test_out(device):
    x = torch.randn(4, 12, dtype=torch.complex64)
    for shape in ((4, 12), (12, 4)):
        out = torch.full(shape, float("nan"), dtype=torch.complex64, device=device)
        out = out if shape == (4, 12) else out.t()
        result = torch.fft.fft(x.to(device), out=out)
        assert result is out
        assert_close(out, torch.fft.fft(x), rtol=1e-4, atol=1e-4)
    real = torch.full((4, 22), float("nan"), device=device)
    torch.fft.irfft(x.to(device), out=real)
    assert_close(real, torch.fft.irfft(x), rtol=1e-4, atol=1e-4)
    for function in (torch.fft.rfft, torch.fft.ihfft, torch.fft.ifft):
        half = torch.empty(0, dtype=torch.complex64, device=device)
        function(x.real.to(device), out=half)
        assert_close(half, function(x.real), rtol=1e-4, atol=1e-4)
    same = x.to(device)
    torch.fft.fft(same, out=same)
    assert_close(same, torch.fft.fft(x), rtol=1e-4, atol=1e-4)


def test_refusals(device):
    x = torch.randn(3, 4, device=device)
    with pytest.raises(RuntimeError, match="expected a complex tensor, but got Float"):
        torch.ops.aten._fft_c2c(x, [0], 0, True)
    with pytest.raises(RuntimeError, match="expected a floating point tensor, but got ComplexFloat"):
        torch.ops.aten._fft_r2c(torch.fft.fft(x), [0], 0, True)
    with pytest.raises(RuntimeError, match="expected 6 elements in dimension 1, but got 4"):
        torch.ops.aten._fft_c2r(torch.fft.fft(x), [1], 0, 10)
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        torch.fft.fft(x.half())
    with pytest.raises(NotImplementedError, match="has no transform on device aule"):
        torch.ops.aten._fft_r2c(x.half(), [0], 0, True)


def check_gradient(function, x: torch.Tensor, n: int) -> None:
    """As check(), of the gradient for random weights of the result."""
    own, reference = like_strided(x).requires_grad_(), wide(x).requires_grad_()
    actual, expected = function(own), function(reference)
    weights = torch.randn(expected.shape, dtype=expected.dtype)
    (actual,) = torch.autograd.grad(actual, own, weights.to(actual.dtype).to("aule"))
    (expected,) = torch.autograd.grad(expected, reference, weights)
    error = (wide(actual.cpu()) - expected).norm() / expected.norm()
    assert error <= 5 * torch.finfo(actual.dtype).eps * math.log2(n), f"{tuple(x.shape)}: relative error {error}"


@pytest.mark.parametrize("n", [6, 7, 64, 81])
def test_gradients(n):
    z = torch.randn(3, n, dtype=torch.complex64)
    for norm in ("backward", "ortho"):
        check_gradient(lambda t: torch.fft.fft(t, norm=norm), z, n)
        check_gradient(lambda t: torch.fft.irfft(t, n, norm=norm), z[:, : n // 2 + 1], n)
        check_gradient(lambda t: torch.fft.rfft(t, norm=norm), z.real, n)
        check_gradient(lambda t: torch.fft.fft(t, norm=norm), z.real, n)
        check_gradient(lambda t: torch.fft.hfft(t, norm=norm), z, n)
    check_gradient(torch.fft.ifft2, z, n)
    check_gradient(lambda t: torch.fft.rfftn(t, dim=(1, 0)), z.real, n)
    check_gradient(lambda t: torch.fft.irfftn(t, dim=(0, 1)), z, n)


@pytest.mark.float64
def test_gradients_by_differences(device):
    z = torch.randn(2, 5, dtype=torch.complex128).to(device).requires_grad_()
    x = torch.randn(2, 6, dtype=torch.float64).to(device).requires_grad_()
    assert torch.autograd.gradcheck(torch.fft.fft, z)
    assert torch.autograd.gradcheck(lambda t: torch.fft.irfft(t, 7), z[:, :4])
    assert torch.autograd.gradcheck(torch.fft.rfft, x)
    assert torch.autograd.gradgradcheck(torch.fft.rfft2, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("size, hop, center", [(64, 16, True), (50, 13, True), (32, 32, False)])
def test_short_time_transforms(dtype, size, hop, center):
    x = torch.randn(2, 412, dtype=dtype)
    window = torch.hann_window(size) + 0.1
    onesided = not dtype.is_complex

    def forward(t):
        own = window.to(t.device, t.real.dtype)
        return torch.stft(t, size, hop, window=own, center=center, onesided=onesided, return_complex=True)

    def back(t):
        own = window.to(t.device, t.real.dtype)
        return torch.istft(
            forward(t), size, hop, window=own, center=center, onesided=onesided, return_complex=not onesided
        )

    check(forward, x, size)
    check_gradient(forward, x, size)
    check(back, x, size)
    check_gradient(back, x, size)
    n = back(x).shape[-1]
    assert_close(back(x.to("aule")), x[:, :n], rtol=1e-4, atol=1e-5)


def test_a_complex_window(device):
    x, window = torch.randn(300), torch.randn(20, dtype=torch.complex64)
    check(lambda t: torch.stft(t, 20, 7, window=window.to(t.device, wide_of(t)), return_complex=True), x, 20)


def wide_of(t: torch.Tensor) -> torch.dtype:
    return torch.complex128 if t.dtype == torch.float64 else torch.complex64


def test_streams_and_graphs(device):
    """Tables are made when a length is first met, here on another stream and under capture."""
    x = torch.randn(3, 1021, dtype=torch.complex64)
    given = x.to(device)
    side = torch.aule.Stream()
    side.wait_stream(torch.aule.current_stream())
    with torch.aule.stream(side):
        on_side = torch.fft.fft(given)
    torch.aule.current_stream().wait_stream(side)
    assert_close(on_side, torch.fft.fft(x), rtol=1e-3, atol=1e-3)
    y = torch.randn(2, 1019, dtype=torch.complex64)
    static = y.to(device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        result = torch.fft.fft(static)
    for _ in range(2):
        y = torch.randn(2, 1019, dtype=torch.complex64)
        static.copy_(y)
        graph.replay()
        assert_close(result, torch.fft.fft(y), rtol=1e-3, atol=1e-3)


def test_many_tables_under_one_capture(device):
    """None is made on the stream that is captured, however many streams there were."""
    x = torch.randn(1, 1480, dtype=torch.complex64)
    static = x.to(device)
    lengths = range(1450, 1480)  # more than a pool has streams
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        results = [torch.fft.fft(static[:, :n]) for n in lengths]
    graph.replay()
    for n, result in zip(lengths, results, strict=True):
        assert_close(result, torch.fft.fft(x[:, :n]), rtol=1e-3, atol=1e-3)


def test_kernels_of_gpus():
    check_program("gpu_fft", **without("cpu_kernels"))


def test_a_transform_is_few_commands(device):
    x = torch.randn(64, 4096, dtype=torch.complex64, device=device)
    torch.fft.fft(x)
    before = _C.recorded_commands()
    torch.fft.fft(x)
    assert _C.recorded_commands() - before <= 3
