"""What kernels of Triton check while they run: bounds of tensors, assertions; and what is refused by name."""

import random

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402

from helpers import check_program  # noqa: E402
from torch_aule.triton.checks import site_texts  # noqa: E402
from torch_aule.triton.driver import reach  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION")


@triton.jit
def copied(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def asserting(x, o, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.static_assert(BLOCK >= 16, "a block of 16 at least")
    tl.static_print("a block of", BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.device_assert(v >= 0, 'no "negative" ones: 5% {of} \\ them')
    tl.store(o + at, v + 1, mask=at < n)


@triton.jit
def printing(x):
    tl.device_print("x", tl.load(x))


def test_without_the_variable_the_text_has_no_checks(device):
    n = random.randrange(100, 300)
    x, out = torch.randn(n, device=device), torch.zeros(n, device=device)
    kernel = copied[(3,)](x, out, n, BLOCK=128)
    text = kernel.asm["glsl"].decode()
    assert "report_error" not in text and site_texts(text) == []
    assert kernel.metadata.check_bounds is False
    assert torch.equal(out, x)


def test_accesses_outside_are_left_out_and_raise():
    """In a process of its own, since the variable is read once."""
    assert "well" in check_program("triton_bounds", str(random.randrange(100, 900)), TORCH_AULE_CHECK_BOUNDS="1")


@pytest.mark.parametrize("debug", [True, False])
def test_assertions(device, debug):
    n = random.randrange(20, 60)
    x = torch.randint(0, 9, (n,), dtype=torch.int32)
    out = torch.zeros(n, dtype=torch.int32, device=device)
    asserting[(1,)](x.to(device), out, n, BLOCK=64, debug=debug)
    assert torch.equal(out.cpu(), x + 1)
    x[random.randrange(n)] = -3
    asserting[(1,)](x.to(device), out, n, BLOCK=64, debug=debug)
    if not debug:
        assert torch.equal(out.cpu(), x + 1)
        return
    message = r"""'no "negative" ones: 5% {of} \\\\ them'"""
    named = rf"kernel asserting, device_assert {message}, .*test_triton_checks\.py:\d+: assertion failed"
    with pytest.raises(RuntimeError, match=named):
        torch.aule.synchronize()
    assert torch.equal(out.cpu(), x + 1)  # the kernel went on, and the device is well


def test_static_assertions(device):
    x = torch.zeros(4, dtype=torch.int32, device=device)
    with pytest.raises(Exception, match="a block of 16 at least"):
        asserting[(1,)](x, x, 4, BLOCK=8)


def test_printing_is_refused_with_its_line(device):
    with pytest.raises(NotImplementedError, match=r"test_triton_checks\.py:\d+: tt\.print: tl\.device_print"):
        printing[(1,)](torch.zeros(1, device=device))


def test_a_launch_declares_what_follows_in_the_storage(device):
    whole = torch.zeros(12, 10, device=device)
    assert reach(whole) is whole
    for view in (whole[3], whole[2:4, 3:5], whole.t(), whole[:, 7], whole[4, 4].expand(3, 2)):
        flat = reach(view)
        assert flat.data_ptr() == view.data_ptr()
        assert flat.shape == (120 - view.storage_offset(),)
    empty = whole[:0]
    assert reach(empty) is empty
    parameter = torch.nn.Parameter(whole)
    assert not reach(parameter[:3]).requires_grad


def test_a_kernel_may_reach_beyond_its_view(device):
    n = random.randrange(50, 100)
    base = torch.randn(3, n)
    own, out = base.to(device), torch.zeros(3, n, device=device)
    for _ in range(3):
        own.add_(1)
        copied[(1,)](own[1], out[1], 2 * n, BLOCK=256)
        own.mul_(0.5)
    expected = base
    for _ in range(3):
        last = expected + 1
        expected = last * 0.5
    assert torch.equal(out[1:].cpu(), last[1:])
    assert (out[0] == 0).all()


def test_sites_are_named_in_the_text():
    lines = ["struct Params {", r'// aule site: "kernel k, \"a\", f.py:3"', "  uint site0;", "};"]
    assert site_texts("\n".join(lines)) == ['kernel k, "a", f.py:3']


@triton.jit
def many_assertions(x, o, COUNT: tl.constexpr):
    v = tl.load(x)
    for i in tl.static_range(COUNT):
        tl.device_assert(v != i, f"number {i}")
    tl.store(o, v)


def test_a_kernel_with_many_assertions(device):
    count = 100
    which = random.randrange(count)
    x = torch.tensor([count], dtype=torch.int32, device=device)
    out = torch.zeros(1, dtype=torch.int32, device=device)
    many_assertions[(1,)](x, out, COUNT=count, debug=True)
    assert out.item() == count
    many_assertions[(1,)](x.fill_(which), out, COUNT=count, debug=True)
    with pytest.raises(RuntimeError, match=f"device_assert 'number {which}'"):
        torch.aule.synchronize()
