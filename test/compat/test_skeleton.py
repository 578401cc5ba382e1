"""aule::_test_multiply, from its schema to its gradient; registrations; a device that ends can begin again."""

import pytest
import torch

from helpers import FLOATS, assert_close, check_python, layouts, like_strided, needs_shader_compiler
from torch_aule import _C

multiply = torch.ops.aule._test_multiply


@pytest.mark.validated
@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64])
def test_twice_the_input(device, dtype):
    for name, x in layouts(torch.randn(5, 7, dtype=dtype)):
        assert_close(multiply(like_strided(x)), x * 2, msg=name)
    assert multiply(torch.empty(0, 3, dtype=dtype, device=device)).shape == (0, 3)
    whole = torch.randn(9, 11, dtype=dtype, device=device)
    assert_close(multiply(whole.t()[2:, 1::2]), whole.cpu().t()[2:, 1::2] * 2)


@pytest.mark.validated
def test_the_parts_of_an_operator(device):
    """Schema, fake kernel, gradient, and what torch.compile needs of them."""
    x = torch.randn(6, 5, device=device, requires_grad=True)
    # PyTorch's check of the registered gradient knows no device but its own.
    torch.library.opcheck(
        multiply.default, (x,), test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_static")
    )
    (grad,) = torch.autograd.grad(multiply(x).square().sum(), x)
    assert_close(grad, 8 * x.detach().cpu())


def test_compiled(device):
    needs_shader_compiler()
    x = torch.randn(6, 5, device=device)
    assert_close(torch.compile(lambda x: multiply(x) + 1, fullgraph=True)(x), x.cpu() * 2 + 1)


def test_shutdown(device):
    """Nothing that lives is lost, memory that nothing holds goes back, and the device works on."""
    x = torch.randn(37, device=device)
    del_me = torch.empty(1 << 20, device=device)
    held = torch.aule.memory_reserved()
    del del_me
    torch.aule._shutdown()
    assert torch.aule.memory_reserved() < held and _C.is_initialized()
    assert_close(multiply(x), x.cpu() * 2)
    torch.aule._shutdown()
    torch.aule._shutdown()


def test_shutdown_starts_no_device():
    code = "import torch, torch_aule; torch.aule._shutdown(); print(torch_aule._C.is_initialized())"
    assert check_python(code).strip() == "False"
    code = (
        "import torch, torch_aule, atexit; atexit.register(torch.aule._shutdown); x = torch.ones(3, device='aule') * 2"
    )
    assert check_python(code) == ""


@pytest.mark.smoke
def test_dangling_registrations():
    """But for those that wait for `import torchvision`."""
    dangling = torch._C._dispatch_find_dangling_impls()
    assert [text for text in dangling if not text.startswith("name: torchvision::")] == []
