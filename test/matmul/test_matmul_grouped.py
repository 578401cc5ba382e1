"""torch.nn.functional.grouped_mm: products of groups whose ends lie on the device."""

import pytest
import torch
import torch.nn.functional as F

from helpers import FLOATS, RELATIVE_TOLERANCES, check_program, needs_shader_compiler, relative_error, without

pytestmark = pytest.mark.validated

# Ends of groups: empty ones, ones of less than a tile and of several, at the edges of tiles.
OFFSETS = [[5, 5, 69, 133, 133, 300], [64, 128, 192], [0, 0, 37], [37], [1, 65, 66, 130]]


def reference(a, b, ends=None):
    """The definition, a product for each group, on the CPU."""
    if ends is None:
        return a @ b
    groups = list(enumerate(zip([0, *ends], ends)))
    if a.dim() == 2 and b.dim() == 2:
        return torch.stack([a[:, i:j] @ b[i:j] for _, (i, j) in groups])
    if a.dim() == 2:
        return torch.cat([a[i:j] @ b[g] for g, (i, j) in groups])
    return torch.cat([a[g] @ b[:, i:j] for g, (i, j) in groups], dim=1)


def operands(form, groups, length, m=71, k=40, n=72, dtype=torch.float32):
    """Matrices whose grouped dimension has `length` elements."""
    sizes = {
        "2d x 3d": [(length, k), (groups, k, n)],
        "3d x 2d": [(groups, m, k), (k, length)],
        "2d x 2d": [(m, length), (length, n)],
        "3d x 3d": [(groups, m, k), (groups, k, n)],
    }[form]
    return [torch.randn(size).to(dtype) for size in sizes]


def transposed(t):
    """The same matrix with its columns in memory."""
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


FORMS = ["2d x 3d", "3d x 2d", "2d x 2d", "3d x 3d"]


def compare(device, a, b, ends):
    """Results and gradients against float64."""
    offs = None if ends is None else torch.tensor(ends, dtype=torch.int32, device=device)
    own = [t.to(device).requires_grad_() for t in (a, b)]
    wide = [t.double().requires_grad_() for t in (a, b)]
    out, expected = torch._grouped_mm(*own, offs=offs), reference(*wide, ends)
    tolerance = RELATIVE_TOLERANCES[a.dtype]
    assert out.dtype == a.dtype and relative_error(out, expected) <= tolerance
    weight = torch.randn(expected.shape).to(a.dtype)
    out.backward(weight.to(device))
    expected.backward(weight.double())
    for x, y in zip(own, wide, strict=True):
        assert x.grad.dtype == a.dtype and relative_error(x.grad, y.grad) <= tolerance


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_forms(device, form, dtype):
    for ends in OFFSETS[:2]:
        a, b = operands(form, len(ends), ends[-1], dtype=dtype)
        compare(device, a, b, None if form == "3d x 3d" else ends)


@pytest.mark.parametrize("form", FORMS[:3])
def test_layouts_and_offsets(device, form):
    for ends in OFFSETS[2:]:
        for prepare in (lambda t: t, transposed):
            a, b = operands(form, len(ends), ends[-1], m=3, k=17, n=5)
            compare(device, prepare(a), b, ends)
            compare(device, a, prepare(b), ends)


def test_views(device):
    ends = [3, 70]
    a, b = torch.randn(150, 2, 80)[::2, 1, 3:43][:70], torch.randn(2, 40, 90)[:, :, 7:]
    own = torch.randn(150, 2, 80, device=device)[::2, 1, 3:43][:70].copy_(a)
    offs = torch.tensor([9, 3, 9, 70, 9], dtype=torch.int32, device=device)[1::2]
    out = torch._grouped_mm(own, b.to(device), offs=offs)
    assert relative_error(out, reference(a.double(), b.double(), ends)) <= RELATIVE_TOLERANCES[torch.float32]


def test_rows_of_no_group_are_zero(device):
    a, b = torch.randn(200, 16), torch.randn(2, 16, 24)
    offs = torch.tensor([10, 90], dtype=torch.int32, device=device)
    for _ in range(3):
        poison = torch.full((200, 24), float("nan"), device=device)
        del poison  # its memory is the result's
        out = torch._grouped_mm(a.to(device), b.to(device), offs=offs)
        assert relative_error(out[:90], reference(a[:90].double(), b.double(), [10, 90])) < 1e-5
        assert not out[90:].cpu().any()
        columns = torch._grouped_mm(b.transpose(1, 2).to(device), a.t().to(device), offs=offs)
        assert torch.equal(columns.cpu(), out.cpu().t())


def test_offsets_beyond_the_tensor_stay_inside(device):
    a, b = torch.randn(100, 16), torch.randn(3, 16, 24)
    offs = torch.tensor([40, 1000, 2**31 - 1], dtype=torch.int32, device=device)
    out = torch._grouped_mm(a.to(device), b.to(device), offs=offs)
    assert relative_error(out, reference(a.double(), b.double(), [40, 100, 100])) < 1e-5


def test_many_groups(device):
    lengths = torch.randint(0, 4, (150,))
    ends = lengths.cumsum(0).tolist()
    for form in ("2d x 3d", "2d x 2d"):
        a, b = operands(form, 150, ends[-1], m=9, k=8, n=11)
        compare(device, a, b, ends)


@pytest.mark.parametrize("sizes", [((0, 8), (2, 8, 4)), ((6, 0), (2, 0, 4)), ((6, 8), (2, 8, 0))])
def test_no_elements(device, sizes):
    a, b = (torch.randn(s, device=device) for s in sizes)
    out = torch._grouped_mm(a, b, offs=torch.tensor([0, sizes[0][0]], dtype=torch.int32, device=device))
    assert out.shape == (sizes[0][0], sizes[1][2]) and not out.cpu().any()


def test_no_groups(device):
    offs = torch.empty(0, dtype=torch.int32, device=device)
    out = torch._grouped_mm(torch.randn(6, 8, device=device), torch.randn(0, 8, 4, device=device), offs=offs)
    assert out.shape == (6, 4) and not out.cpu().any()


def test_mixture_of_experts(device):
    """Tokens sorted by expert; nothing of it is read on the host."""
    tokens, experts, size, hidden = 50, 4, 32, 48
    x = torch.randn(tokens, size)
    up, down = torch.randn(experts, size, hidden) / size**0.5, torch.randn(experts, hidden, size) / hidden**0.5
    expert = torch.randint(experts, (tokens,))

    def layer(x, up, down, expert):
        order = expert.argsort(stable=True)
        ends = (expert.unsqueeze(0) == torch.arange(experts, device=expert.device).unsqueeze(1)).sum(1).cumsum(0)
        offs = ends.to(torch.int32)
        y = F.grouped_mm(F.silu(F.grouped_mm(x[order], up, offs=offs)), down, offs=offs)
        return torch.empty_like(y).index_copy(0, order, y)

    own = [t.to(device).requires_grad_() for t in (x, up, down)]
    wide = [t.double().requires_grad_() for t in (x, up, down)]
    out = layer(*own, expert.to(device))
    expected = torch.stack([F.silu(wide[0][i] @ wide[1][e]) @ wide[2][e] for i, e in enumerate(expert.tolist())])
    assert relative_error(out, expected) < 1e-5
    weight = torch.randn(tokens, size)
    out.backward(weight.to(device))
    expected.backward(weight.double())
    for a, e in zip(own, wide, strict=True):
        assert relative_error(a.grad, e.grad) < 1e-5


def test_tiles_in_shared_memory(device):
    check_program("grouped_products", TORCH_AULE_STRICT="1", **without("subgroup_shuffle"))


def test_compiled(device):
    """Rows start where the compiler expects them. PyTorch traces bfloat16 alone."""
    needs_shader_compiler()
    offs = torch.tensor([10, 20, 50], dtype=torch.int32, device=device)
    a = torch.randn(50, 32, device=device, dtype=torch.bfloat16)
    b = torch.randn(3, 21, 32, device=device, dtype=torch.bfloat16).transpose(1, 2)  # rows of 42 bytes

    def function(a, b, offs):
        return F.silu(F.grouped_mm(a * 2, b, offs=offs))

    assert torch.equal(torch.compile(function)(a, b, offs).cpu(), function(a, b, offs).cpu())


def test_mistakes(device):
    a, b = torch.randn(6, 8, device=device), torch.randn(2, 8, 4, device=device)
    offs = torch.tensor([2, 6], dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match="offs"):
        torch._grouped_mm(a, b)
    with pytest.raises(RuntimeError, match="offs"):
        torch._grouped_mm(a, b, offs=offs.long())
    with pytest.raises(RuntimeError, match="rows"):
        torch._grouped_mm(a[:, :7], b, offs=offs)
    with pytest.raises(RuntimeError, match="groups"):
        torch._grouped_mm(a, b, offs=offs[:1])
    with pytest.raises(RuntimeError, match="BFloat16"):
        torch._grouped_mm(a.double(), b.double(), offs=offs)
    with pytest.raises(RuntimeError, match="bias"):
        torch._grouped_mm(a, b, offs=offs, bias=b)
