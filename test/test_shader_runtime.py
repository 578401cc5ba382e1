"""Kernels compiled at run time: results, hazards, graphs, what is refused and by which name, the cache on disk."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers import check_program, check_replays, in_threads, needs_shader_compiler, run_program
from torch_aule import _C
from torch_aule._shader import ShaderError, compile_kernel, spirv_cache

ROOT = Path(__file__).resolve().parent.parent

needs_shader_compiler()

HEAD = """
#pragma aule tensor out_ write OUT_DTYPE
#pragma aule tensor x read X_DTYPE
#pragma aule tensor b read float32
// out_[i] = x[i] * a + b[i]
layout(local_size_x_id = 2) in;
layout(constant_id = 0) const int X_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int LOCAL = 64;
struct Params { uint64_t out_, x, b; uint n; float a; };
#include "common/params.glsl"
#include "common/indexing.glsl"
#include "common/dtype.glsl"
"""
AXPB = (
    HEAD
    + """
void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  store_float(p.out_, i, OUT_DTYPE, load_float(p.x, i, X_DTYPE) * p.a + F32Ref(p.b + i * 4).v);
}
"""
)


@pytest.fixture(scope="module")
def axpb():
    return compile_kernel(AXPB, name="axpb")


def close(actual, reference, tolerance):
    """float32 arithmetic against float64: a rounding or two of values of order one, times `tolerance`."""
    torch.testing.assert_close(actual.cpu().double(), reference, rtol=tolerance, atol=tolerance)


def launch(kernel, out, x, b, a, local=64, **constants):
    n = out.numel()
    kernel(out, x, b, grid=-(-n // local), constants={"LOCAL": local, **constants}, params={"n": n, "a": a})


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 100003])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_against_float64(device, axpb, n, dtype):
    x = torch.randn(n).mul(8).to(dtype)
    b, out = torch.randn(n), torch.empty(n, device=device)
    launch(axpb, out, x.to(device), b.to(device), 1.25)
    close(out, x.double() * 1.25 + b.double(), 2e-6)


def test_grid_in_three_dimensions_and_past_one_axis(device, axpb):
    n = 70000  # workgroups of one invocation: more than an axis has, so the number is folded
    x, b, out = (torch.randn(n, device=device) for _ in range(3))
    launch(axpb, out, x, b, 2.0, local=1)
    close(out, x.cpu().double() * 2 + b.cpu().double(), 1e-6)
    out.zero_()
    axpb(out, x, b, grid=(4, 1, 1), params={"n": n, "a": 2.0})
    assert out[256:].count_nonzero() == 0 and out[:256].count_nonzero() == 256
    axpb(out, x, b, grid=0, params={"n": n, "a": 2.0})  # nothing


def test_views(device, axpb):
    x, b, out = (torch.randn(40, 50) for _ in range(3))
    mine = [t.to(device) for t in (out, x, b)]
    launch(axpb, *(t[7:30] for t in mine), 0.5)  # contiguous, behind an offset
    close(mine[0][7:30], x[7:30].double() * 0.5 + b[7:30].double(), 1e-6)
    assert torch.equal(mine[0][:7].cpu(), out[:7]) and torch.equal(mine[0][30:].cpu(), out[30:])
    with pytest.raises(ValueError, match="axpb: x must be contiguous.*strided"):
        launch(axpb, mine[0], mine[1].t(), mine[2], 1.0)


def test_strided_tensors_where_declared(device):
    kernel = compile_kernel(
        """
        #pragma aule tensor out_ write float32
        #pragma aule tensor x read float32 strided
        layout(local_size_x = 64) in;
        struct Params { uint64_t out_, x; int64_t strides[2]; uint rows, cols; };
        #include "common/params.glsl"
        #include "common/indexing.glsl"
        #include "common/dtype.glsl"
        void main() {
          uint64_t i = linear_invocation();
          if (i >= uint64_t(p.rows) * p.cols) return;
          int64_t at = int64_t(i / p.cols) * p.strides[0] + int64_t(i % p.cols) * p.strides[1];
          F32Ref(p.out_ + i * 4).v = F32Ref(p.x + uint64_t(at) * 4).v;
        }""",
        name="gather_2d",
    )
    base = torch.randn(37, 90)
    view, out = base.to(device)[1:, 2::3].t(), torch.empty(30, 36, device=device)
    params = {"strides": view.stride(), "rows": 30, "cols": 36}
    kernel(out, view, grid=-(-30 * 36 // 64), params=params)
    assert torch.equal(out.cpu(), base[1:, 2::3].t())
    with pytest.raises(TypeError, match="gather_2d: strides takes a sequence of 2"):
        kernel(out, view, grid=1, params={**params, "strides": (1, 2, 3)})


def test_one_stream_orders_reads_after_writes(device, axpb):
    """Each launch reads what the one before it wrote; built-in kernels stand between."""
    n = 20001
    x, zero = torch.randn(n), torch.zeros(n, device=device)
    a, b = x.to(device), torch.empty(n, device=device)
    want = x.double()
    for _ in range(20):
        launch(axpb, b, a, zero, 1.5)
        b += 1
        launch(axpb, a, b, zero, 0.5)
        want = (want * 1.5 + 1) * 0.5
    close(a, want, 1e-5)


def test_two_streams(device, axpb):
    n = 1 << 18
    x, zero = torch.randn(n), torch.zeros(n, device=device)
    source, middle, out = x.to(device), torch.empty(n, device=device), torch.empty(n, device=device)
    first, second = torch.Stream(device=device), torch.Stream(device=device)
    current = torch.aule.current_stream()
    first.wait_stream(current)
    for round in range(5):
        with first:
            first.wait_stream(second)  # the reader of the last round
            launch(axpb, middle, source, zero, float(round))
        with second:
            second.wait_stream(first)
            launch(axpb, out, middle, zero, 2.0)
    current.wait_stream(second)
    close(out, x.double() * 8, 1e-6)


@pytest.mark.skipif(torch.aule.Graph is None, reason="torch.accelerator.Graph exists from torch 2.12 on")
def test_in_a_graph(device, axpb):
    n = 5000
    x, b, out = (torch.zeros(n, device=device) for _ in range(3))
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        launch(axpb, out, x, b, 3.0, local=32)
        y = out + 1
    check_replays(graph, x, lambda new: close(y, new * 3 + 1, 1e-6))


def test_the_same_source_is_the_same_kernel(axpb):
    assert compile_kernel(AXPB, name="axpb") is axpb
    other = compile_kernel(AXPB, name="axpb_again")
    assert other.id != axpb.id and other.name == "axpb_again"
    names = [name for name, _, supported in _C.registered_kernels() if supported]
    assert names.count("axpb") == 1 and names.count("axpb_again") == 1


def test_equal_spirv_is_one_pipeline(device, axpb):
    other = compile_kernel(AXPB, name="axpb_shared")
    tensors = [torch.zeros(8, device=device) for _ in range(3)]
    launch(axpb, *tensors, 1.0, local=16)
    before = len(_C.active_pipelines(0))
    launch(other, *tensors, 1.0, local=16)
    assert len(_C.active_pipelines(0)) == before
    launch(other, *tensors, 1.0, local=48)
    assert _C.active_pipelines(0)[before:] == ["axpb_shared(0,0,48)"]


def test_two_threads_compile_one_kernel(device):
    source = AXPB.replace("* p.a", "* (p.a + 1.0)")

    def work(_):
        kernel = compile_kernel(source, name="threaded")
        x, out = torch.ones(100, device=device), torch.empty(100, device=device)
        launch(kernel, out, x, x, 1.0)
        assert out.cpu().unique().tolist() == [3.0]
        return kernel

    assert len(set(in_threads(work))) == 1


def test_axes_and_defines(device):
    source = """
        #pragma aule axis OP add mul
        #pragma aule tensor x read_write int32
        layout(local_size_x = 1) in;
        struct Params { uint64_t x; int by; };
        #include "common/params.glsl"
        #include "common/dtype.glsl"
        void main() {
        #if defined(OP_add)
          I32Ref(p.x).v += p.by * TIMES;
        #else
          I32Ref(p.x).v *= p.by * TIMES;
        #endif
        }"""
    x = torch.tensor([5], dtype=torch.int32, device=device)
    add, mul = (compile_kernel(source, name="step", defines={"OP": op, "TIMES": 2}) for op in ("add", "mul"))
    assert (add.name, mul.name) == ("step<OP=add>", "step<OP=mul>")
    add(x, grid=1, params={"by": -4})
    mul(x, grid=1, params={"by": 3})
    assert x.item() == (5 - 8) * 6
    with pytest.raises(ShaderError, match="step: `defines` needs OP, one of: add, mul"):
        compile_kernel(source, name="step", defines={"OP": "sub"})


def test_features_and_shared_memory(device, axpb):
    """What the device has not is refused before its driver sees it."""
    source = AXPB.replace("struct Params", "layout(constant_id = 3) const uint WORDS = 64;\nstruct Params").replace(
        "void main() {", "shared uint words[WORDS];\nvoid main() {\n  words[gl_LocalInvocationIndex % WORDS] = 1;"
    )
    kernel = compile_kernel(source, name="holds")
    assert kernel.shared_bytes() == 256 and kernel.shared_bytes({"WORDS": 1000}) == 4000
    assert axpb.shared_bytes() == 0
    tensors = [torch.zeros(8, device=device) for _ in range(3)]
    launch(kernel, *tensors, 1.0)
    limit = _C.device_properties(0)["max_shared_bytes"]
    with pytest.raises(RuntimeError, match=rf"holds wants {limit + 16} bytes of shared memory"):
        launch(kernel, *tensors, 1.0, WORDS=limit // 4 + 4)
    with pytest.raises(ShaderError, match="unknown feature 'wings'"):
        compile_kernel("#pragma aule feature wings\n" + AXPB, name="flies")


@pytest.mark.parametrize("declared", [True, False])
def test_a_feature_that_the_device_lacks(declared):
    """Asked for by a line of the source, or by what the SPIR-V does."""
    extension = "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n"
    if declared:
        source = "#pragma aule feature float16\n" + AXPB
    else:
        source = extension + AXPB.replace("p.a +", "float(float16_t(p.a) * float16_t(p.a)) +")
    assert "halves needs features" in check_program("shader_feature", source, TORCH_AULE_DISABLE_FLOAT16="1")


def test_arguments_are_named_in_errors(device, axpb):
    x = torch.zeros(4, device=device)
    params = {"n": 4, "a": 1.0}
    refused = [
        (TypeError, "axpb: takes 3 tensors, but got 2", (x, x), params, {}),
        (TypeError, "axpb: b must be of dtype Float, but is Half", (x, x, x.half()), params, {}),
        (TypeError, "axpb: x must be a tensor on device aule, but got cpu", (x, x.cpu(), x), params, {}),
        (ValueError, "axpb: params lack a", (x, x, x), {"n": 4}, {}),
        (ValueError, "axpb: there is no parameter m; there is: n, a", (x, x, x), {**params, "m": 1}, {}),
        (TypeError, "axpb: n takes an int, not 4.0", (x, x, x), {**params, "n": 4.0}, {}),
        (ValueError, "axpb: n is -1, not between 0 and", (x, x, x), {**params, "n": -1}, {}),
        (TypeError, "axpb: a takes a number, not 'one'", (x, x, x), {**params, "a": "one"}, {}),
        (ValueError, "axpb: there is no constant LOKAL; there is:.* LOCAL", (x, x, x), params, {"LOKAL": 1}),
        (TypeError, "axpb: LOCAL takes an int, not True", (x, x, x), params, {"LOCAL": True}),
        (ValueError, "axpb: X_DTYPE is the dtype of x", (x, x, x), params, {"X_DTYPE": torch.float32}),
        (NotImplementedError, "axpb: dtype ComplexFloat", (x, x.to(torch.complex64), x), params, {}),
    ]
    for kind, text, tensors, given, constants in refused:
        with pytest.raises(kind, match=text):
            axpb(*tensors, grid=1, params=given, constants=constants)
    with pytest.raises(TypeError, match="axpb: grid takes"):
        axpb(x, x, x, grid="1", params=params)
    with pytest.raises(ValueError, match="axpb: grid is 70000, not between 0 and 65535"):
        axpb(x, x, x, grid=(70000, 1), params=params)
    with pytest.raises(RuntimeError, match="more than one element"):  # one element stands for all
        compile_kernel(AXPB.replace("OUT_DTYPE\n", "OUT_DTYPE strided\n", 1), name="strides")(
            x[:1].expand(4), x, x, grid=1, params=params
        )


def test_autograd_notices_writes(device, axpb):
    x, b = torch.randn(8, device=device, requires_grad=True), torch.zeros(8, device=device)
    with pytest.raises(ValueError, match="axpb: out_ is written and requires grad"):
        launch(axpb, x, b, b, 1.0)
    scale = torch.randn(8, device=device)
    y = (x * scale).sum()
    version = scale._version
    launch(axpb, scale, b, b, 1.0)
    assert scale._version == version + 1 and b._version == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize(
    "change, text",
    [
        (("* p.a", "* p.c"), r"bad:\d+: error: .*c"),
        (("common/dtype.glsl", "common/none.glsl"), r'bad:13: cannot find include "common/none.glsl"'),
        (("void main() {", "void main() {\n  int v = 1.5.x;"), "bad:16: error:"),
        (("tensor x read X_DTYPE", "tensor x looks X_DTYPE"), "bad:3: tensor x: 'looks' is neither read"),
        (("tensor x read X_DTYPE", "tensor n read X_DTYPE"), "bad: tensor n is no uint64_t member"),
        (("tensor x read X_DTYPE", "tensor x read LOCAL"), "bad: tensor x: 'LOCAL' is no dtype"),
        (("return;", "{ uint64_t j = max(i, uint64_t(p.n)); p.out_; return; }"), "bad: min, max or clamp of 64-bit"),
    ],
)
def test_errors_of_the_source_have_its_line(change, text):
    assert change[0] in AXPB
    with pytest.raises(ShaderError, match=text):
        compile_kernel(AXPB.replace(*change), name="bad")


def test_without_a_tensor_line():
    source = "\n".join(line for line in AXPB.splitlines() if "aule tensor" not in line)
    with pytest.raises(ShaderError, match="bad: no `#pragma aule tensor"):
        compile_kernel(source, name="bad")
    with pytest.raises(ShaderError, match="snake_case"):
        compile_kernel(AXPB, name="Bad Name")


def test_without_a_compiler():
    """The error says what to install."""
    assert "pip install torch_aule[jit]" in check_program("shader_without_compiler", AXPB)


def test_kernels_that_nobody_holds_are_freed():
    assert check_program("many_kernels", timeout=300).strip() == "good"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize("first", ["spirv", "pipelines"])
def test_the_cache_folder_is_private(tmp_path, first):
    """Whoever makes it, and the folders above it, under the umask of most systems."""
    folder = tmp_path / "new" / "cache"
    check_program("private_cache", first, TORCH_AULE_CACHE_DIR=str(folder))
    made = [folder.parent, folder, *(path for path in folder.rglob("*") if path.is_dir())]
    assert len(made) >= (2 if first == "pipelines" else 4)
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}, made


def test_spirv_is_kept_on_disk(tmp_path):
    def run(*options):
        return run_program("shader_cached", AXPB, *options, TORCH_AULE_CACHE_DIR=str(tmp_path))

    assert run().stdout.strip() == "[3.0, 3.0, 3.0, 3.0]"
    (file,) = (tmp_path / "spirv").glob("*/*.spv")
    good = file.read_bytes()
    assert run("cached").stdout.strip() == "[3.0, 3.0, 3.0, 3.0]"
    for damaged in (good[:-4], good[:100] + bytes([good[100] ^ 1]) + good[101:], b"", b"nothing"):
        file.write_bytes(damaged)
        assert spirv_cache.load(tmp_path, file.stem) is None
    assert run("cached").returncode != 0
    assert run().returncode == 0 and file.read_bytes() == good


def test_the_cache_on_disk_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(spirv_cache, "LIMIT_BYTES", 3000)
    keys = [f"{i:02x}" * 32 for i in range(6)]
    for i, key in enumerate(keys):
        monkeypatch.setattr(spirv_cache, "_untrimmed", {})
        spirv_cache.store(tmp_path, key, bytes([i]) * 1000)
        path = tmp_path / "spirv" / key[:2] / f"{key}.spv"
        os.utime(path, (1000 + i, 1000 + i))
    found = [spirv_cache.load(tmp_path, key) for key in keys]
    assert found[-1] == bytes([5]) * 1000 and found[0] is None
    assert sum(spirv is not None for spirv in found) in (2, 3)
    assert spirv_cache.load(None, keys[0]) is None
    oldest = min(i for i, spirv in enumerate(found) if spirv is not None)
    for i, key in enumerate(keys[oldest:]):
        path = tmp_path / "spirv" / key[:2] / f"{key}.spv"
        os.utime(path, (2000 + i, 2000 + i))
    assert spirv_cache.load(tmp_path, keys[oldest]) is not None  # used now, so it is no more the oldest
    monkeypatch.setattr(spirv_cache, "_untrimmed", {})
    spirv_cache.store(tmp_path, "ff" * 32, b"new " * 250)
    assert spirv_cache.load(tmp_path, keys[oldest]) is not None
    assert spirv_cache.load(tmp_path, keys[oldest + 1]) is None
    spirv_cache.store(tmp_path / "spirv" / "05" / (keys[5] + ".spv"), keys[0], b"1234")  # a file is no folder


def test_the_guard_of_loops_watches_these_kernels(device):
    """Where a driver ends long loops, a kernel that was cut is an error, not a wrong number."""
    limit = _C.device_properties(0)["driver_loop_limit"]
    if limit == 0:
        pytest.skip("this driver ends no loops")
    kernel = compile_kernel(
        """
        #pragma aule tensor out_ write int32
        layout(local_size_x = 1) in;
        struct Params { uint64_t out_; int n; };
        #include "common/params.glsl"
        #include "common/dtype.glsl"
        void main() {
          int total = 0;
          for (int i = 0; i < p.n; ++i) total += I32Ref(p.out_).v;
          I32Ref(p.out_).v = total;
        }""",
        name="long_walk",
    )
    x = torch.ones(1, dtype=torch.int32, device=device)
    kernel(x, grid=1, params={"n": limit // 2})
    assert x.item() == limit // 2
    kernel(x, grid=1, params={"n": 3 * limit})
    with pytest.raises(RuntimeError, match="long_walk"):
        torch.aule.synchronize()


def test_a_wheel_has_what_kernels_include(tmp_path):
    """Compiles a kernel with nothing but what `build_py` copies."""
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path), "build_py", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    folder = tmp_path / "torch_aule" / "_shader" / "include"
    assert {path.name for path in (folder / "common").iterdir()} == {
        path.name for path in (ROOT / "shaders" / "common").glob("*.glsl")
    }
    sources = [*folder.glob("**/*.*"), *(ROOT / "torch_aule" / "_inductor").glob("**/*.py")]
    named = {name for path in sources for name in re.findall(r'#\s*include "([^"{]+)"', path.read_text())}
    assert "inductor/prelude.glsl" in named and "pointwise/math.glsl" in named
    assert not [name for name in named if not (folder / name).is_file()]
    assert int(check_program("shader_wheel", str(folder.parents[1]), AXPB)) > 1000
