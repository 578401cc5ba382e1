"""The launch object of generated code, and its allocation: values, hazards, graphs, errors, threads, cost."""

import time
from collections import Counter

import pytest
import torch

from helpers import check_program, check_replays, in_threads, needs_shader_compiler, without
from torch_aule import _C
from torch_aule.glsl.spirv import ShaderError
from torch_aule.shader.generated import compile_generated

pytestmark = pytest.mark.validated

needs_shader_compiler()

AXPB = """
// out_[i] = x[i] * a + b[i]
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const int LOCAL = 64;
struct Params { uint64_t x, b, out_; int64_t n; float a; };
#include <aule/common/params.glsl>
#include <aule/common/indexing.glsl>
#include <aule/common/dtype.glsl>
void main() {
  uint64_t i = linear_invocation();
  if (i >= uint64_t(p.n)) return;
  F32Ref(p.out_ + i * 4).v = F32Ref(p.x + i * 4).v * p.a + F32Ref(p.b + i * 4).v;
}
"""
# Each member's value is written as a double, so that what arrived can be compared.
SHOW = """
layout(local_size_x = 1) in;
struct Params { uint64_t out_; int64_t l; uint64_t ul; double d; int i; uint u; float f; };
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F64 { double v; };
void main() {
  double values[6] = double[](double(p.l), double(p.ul), p.d, double(p.i), double(p.u), double(p.f));
  for (int k = 0; k < 6; ++k) F64(p.out_ + k * 8).v = values[k];
}
"""


@pytest.fixture(scope="module")
def axpb():
    return compile_generated(AXPB, name="axpb_generated", signature="rrwlf")


def groups(n, local=64):
    return -(-n // local)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 100003])
def test_against_float64(device, axpb, n):
    x, b = torch.randn(n), torch.randn(n)
    out = torch.empty(n, device=device)
    assert axpb(x.to(device), b.to(device), out, n, 1.25, groups(n)) is None
    torch.testing.assert_close(out.cpu().double(), x.double() * 1.25 + b.double(), rtol=2e-6, atol=2e-6)


def test_constants_and_a_grid_past_one_axis(device):
    kernel = compile_generated(AXPB, name="axpb_one", signature="rrwlf", constants={"LOCAL": 1})
    n = 70000
    x, b, out = (torch.randn(n, device=device) for _ in range(3))
    kernel(x, b, out, n, 2.0, n)
    torch.testing.assert_close(out.cpu().double(), x.cpu().double() * 2 + b.cpu().double(), rtol=2e-6, atol=2e-6)
    out.zero_()
    kernel(x, b, out, n, 2.0, 0)
    assert out.count_nonzero() == 0
    with pytest.raises(ValueError, match="there is no constant LOKAL; there is: LOCAL"):
        compile_generated(AXPB, name="axpb_one", signature="rrwlf", constants={"LOKAL": 1})
    with pytest.raises(TypeError, match="LOCAL takes an int, not 1.5"):
        compile_generated(AXPB, name="axpb_one", signature="rrwlf", constants={"LOCAL": 1.5})
    with pytest.raises(TypeError, match="LOCAL takes an int, not True"):
        compile_generated(AXPB, name="axpb_bool", signature="rrwlf", constants={"LOCAL": True})


def needs_float64(device):
    if not _C.device_properties(0)["float64"]:
        pytest.skip("the kernel shows numbers as doubles, which this device has not")


def test_numbers_of_every_type(device):
    needs_float64(device)
    kernel = compile_generated(SHOW, name="show_numbers", signature="wlldiuf")
    out = torch.empty(6, dtype=torch.float64, device=device)
    for values in [(-(2**40), 2**53, 0.1, -(2**31), 2**32 - 1, 0.5), (5, 0, 7, 2**31 - 1, 0, -3)]:
        kernel(out, *values, 1)
        assert out.tolist() == [float(value) for value in values]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
              torch.int8, torch.uint8, torch.bool]
)  # fmt: skip
def test_host_scalars(device, dtype):
    """The value of a 0-dim CPU tensor, converted; never its address."""
    needs_float64(device)
    kernel = compile_generated(SHOW, name="show_host", signature="whhhhhh")
    out = torch.empty(6, dtype=torch.float64, device=device)
    value = torch.tensor(1 if dtype == torch.bool else 3.5).to(dtype)
    kernel(out, *[value] * 6, 1)
    real, whole = float(value), float(int(value))
    assert out.tolist() == [whole, whole, real, whole, whole, real]
    kernel(out, -4, True, 2.5, -7.9, 9, 1e-3, 1)
    assert out.tolist() == [-4.0, 1.0, 2.5, -7.0, 9.0, torch.tensor(1e-3).item()]


def test_host_scalars_that_do_not_fit(device):
    kernel = compile_generated(SHOW, name="show_host", signature="whhhhhh")
    out = torch.empty(6, dtype=torch.float64, device=device)
    for place, value, text in [
        (3, torch.tensor(2**31), "show_host: i cannot hold 2.147"),
        (4, -1, "show_host: u cannot hold -1"),
        (0, torch.tensor(float("nan")), "show_host: l cannot hold nan"),
        (3, 1e10, "show_host: i cannot hold 1e"),
    ]:
        values = [0] * 6
        values[place] = value
        with pytest.raises(ValueError, match=text):
            kernel(out, *values, 1)
    for value in (torch.ones(1), torch.ones((), device=device), torch.tensor(1j)):
        with pytest.raises(TypeError, match="show_host: d takes a"):
            kernel(out, 0, 0, value, 0, 0, 0, 1)


def test_views_span_their_own_elements(device, axpb):
    """Slices of one buffer: each is written, its neighbours are not, and order holds where they do overlap."""
    base = torch.randn(4, 5000)
    mine = base.to(device)
    ones = torch.ones(5000, device=device)
    axpb(mine[0], ones, mine[1], 5000, 2.0, groups(5000))
    axpb(mine[1], ones, mine[2], 5000, 3.0, groups(5000))
    axpb(mine[2, 1000:], ones, mine[3], 4000, 1.0, groups(4000))
    want = base.double()
    want[1] = want[0] * 2 + 1
    want[2] = want[1] * 3 + 1
    want[3, :4000] = want[2, 1000:] + 1
    torch.testing.assert_close(mine.cpu().double(), want, rtol=1e-5, atol=1e-5)


def test_one_stream_orders_reads_after_writes(device):
    kernel = compile_generated(AXPB, name="axpb_in_place", signature="rrmlf")
    n = 20001
    x, ones = torch.randn(n), torch.ones(n, device=device)
    a, want = x.to(device), x.double()
    for _ in range(20):
        kernel(a, ones, a, n, 0.5, groups(n))
        a += 1
        want = want * 0.5 + 2
    torch.testing.assert_close(a.cpu().double(), want, rtol=1e-5, atol=1e-5)


def test_empty_tensors_have_address_0(device):
    needs_float64(device)
    kernel = compile_generated(
        """
        layout(local_size_x = 1) in;
        struct Params { uint64_t x, y, out_; };
        #include "common/params.glsl"
        #include "common/dtype.glsl"
        void main() {
          I64Ref(p.out_).v = int64_t(p.x);
          I64Ref(p.out_ + 8).v = int64_t(p.y);
        }""",
        name="shows_addresses", signature="rrw",
    )  # fmt: skip
    base, out = torch.ones(10, device=device), torch.empty(2, dtype=torch.int64, device=device)
    kernel(base[4:4], base[3:], out, 1)
    assert out.tolist() == [0, base.data_ptr() + 12]


@pytest.mark.skipif(torch.aule.Graph is None, reason="torch.accelerator.Graph exists from torch 2.12 on")
def test_in_a_graph(device, axpb):
    n = 5000
    x, b = torch.zeros(n, device=device), torch.ones(n, device=device)
    axpb.prepare()
    graph = torch.aule.Graph()
    with torch.aule.graph(graph):
        out = _C.empty_strided_aule((n,), (1,), torch.float32)
        axpb(x, b, out, n, 3.0, groups(n))
        y = out + 1
    check_replays(graph, x, lambda new: torch.testing.assert_close(y.cpu().double(), new * 3 + 2, rtol=1e-6, atol=1e-5))


def test_a_block_of_many_members_goes_through_the_ring(device):
    count = 40  # 320 bytes of addresses
    names = ", ".join(f"x{i}" for i in range(count))
    total = " + ".join(f"I32Ref(p.x{i}).v" for i in range(count))
    kernel = compile_generated(
        f"""
        layout(local_size_x = 1) in;
        struct Params {{ uint64_t {names}, out_; }};
        #include "common/params.glsl"
        #include "common/dtype.glsl"
        void main() {{ I32Ref(p.out_).v = {total}; }}""",
        name="sums_many", signature="r" * count + "w",
    )  # fmt: skip
    parts = [torch.tensor([i * i], dtype=torch.int32, device=device) for i in range(count)]
    out = torch.empty(1, dtype=torch.int32, device=device)
    kernel(*parts, out, 1)
    assert out.item() == sum(i * i for i in range(count))


def test_arguments_are_named_in_errors(device, axpb):
    x = torch.zeros(4, device=device)
    for kind, text, arguments in [
        (TypeError, "axpb_generated: takes 5 arguments and the number of workgroups, but got 5 by", (x, x, x, 4, 1.0)),
        (TypeError, "axpb_generated: b must be a tensor on device aule, but got cpu", (x, x.cpu(), x, 4, 1.0, 1)),
        (TypeError, "axpb_generated: x takes a tensor on device aule, not 3", (3, x, x, 4, 1.0, 1)),
        (TypeError, "axpb_generated: n takes an int, not 4.0", (x, x, x, 4.0, 1.0, 1)),
        (TypeError, "axpb_generated: n takes an int, not True", (x, x, x, True, 1.0, 1)),
        (ValueError, "axpb_generated: n is 9999999999999999999, not between", (x, x, x, 9999999999999999999, 1.0, 1)),
        (TypeError, "axpb_generated: a takes a number, not 'one'", (x, x, x, 4, "one", 1)),
        (
            TypeError,
            "axpb_generated: grid takes workgroups, or up to three numbers of them, not 1.5",
            (x, x, x, 4, 1.0, 1.5),
        ),
        (ValueError, "axpb_generated: grid is -1, not between", (x, x, x, 4, 1.0, -1)),
        (RuntimeError, "more than one element", (x, x, x[:1].expand(4), 4, 1.0, 1)),
    ]:
        with pytest.raises(kind, match=text):
            axpb(*arguments)
    with pytest.raises(TypeError, match="and others by name"):
        axpb(x, x, x, 4, 1.0, groups=1)
    z = torch.zeros(4, dtype=torch.complex64, device=device)
    with pytest.raises(ValueError, match="axpb_generated: x is a lazy conjugate"):
        axpb(z.conj(), x, x, 4, 1.0, 1)


@pytest.mark.parametrize(
    "signature, kind, text",
    [
        ("rrwl", ValueError, "axpb_bad: the signature rrwl has 4 letters, Params has 5 members"),
        ("rrwlq", ValueError, "axpb_bad: the signature rrwlq has the letter q"),
        ("rrwld", ValueError, "axpb_bad: the letter d of the signature does not fit the type of a"),
        ("rrwrf", ValueError, "axpb_bad: the letter r of the signature does not fit the type of n"),
    ],
)
def test_signatures_that_do_not_fit(signature, kind, text):
    with pytest.raises(kind, match=text):
        compile_generated(AXPB, name="axpb_bad", signature=signature)


def test_sources_that_do_not_fit():
    with pytest.raises(ShaderError, match="arrays have the letter n"):
        compile_generated(AXPB.replace("float a;", "float a[2];").replace("p.a ", "p.a[0] "),
                          name="arrays", signature="rrwlf")  # fmt: skip
    with pytest.raises(ShaderError, match=r"wrong:\d+: error: .*undeclared"):
        compile_generated(AXPB.replace("p.a ", "q.a "), name="wrong", signature="rrwlf")
    with pytest.raises(ShaderError, match="not for generated kernels"):
        compile_generated("#pragma aule tensor x read float32\n" + AXPB, name="wrong", signature="rrwlf")
    with pytest.raises(ValueError, match="no argument is a tensor"):
        compile_generated(AXPB, name="hostless", signature="lllhf")


def test_a_feature_that_the_device_lacks():
    printed = check_program("shader_generated_feature", SHOW, **without("float64"))
    assert printed.count("doubles needs float64") == 2


def test_prepare_makes_the_pipeline(device):
    kernel = compile_generated(AXPB, name="prepared", signature="rrwlf", constants={"LOCAL": 24})
    before = _C.active_pipelines(0)
    kernel.prepare()
    kernel.prepare(0)
    assert _C.active_pipelines(0)[len(before) :] == ["prepared(24)"]
    x, out = torch.ones(30, device=device), torch.empty(30, device=device)
    kernel(x, x, out, 30, 4.0, 2)
    assert out.cpu().unique().tolist() == [5.0] and _C.active_pipelines(0).count("prepared(24)") == 1
    with pytest.raises(RuntimeError, match="aule:63 does not exist|invalid device index 63"):
        kernel.prepare(63)


def test_the_same_source_is_the_same_kernel(device, axpb):
    """A name is registered once, however often it is asked for; another name is another kernel."""
    assert compile_generated(AXPB, name="axpb_generated", signature="rrwlf") is axpb
    assert compile_generated(AXPB, name="axpb_generated", signature="rrmlf").id == axpb.id  # of equal SPIR-V
    other = compile_generated(AXPB, name="axpb_renamed", signature="rrwlf")
    assert other.id != axpb.id and other.name == "axpb_renamed"
    names = [name for name, _, supported in _C.registered_kernels() if supported]
    assert names.count("axpb_generated") == 1 and names.count("axpb_renamed") == 1


def test_equal_spirv_is_one_pipeline(device):
    def prepared(name, local):
        kernel = compile_generated(AXPB, name=name, signature="rrwlf", constants={"LOCAL": local})
        kernel.prepare()
        return kernel

    held = [prepared("axpb_first", 16)]
    before = Counter(_C.active_pipelines(0))  # some go when kernels of earlier tests are collected
    held.append(prepared("axpb_shared", 16))
    assert not Counter(_C.active_pipelines(0)) - before
    held.append(prepared("axpb_shared", 56))
    assert Counter(_C.active_pipelines(0)) - before == Counter(["axpb_shared(56)"])


def test_shared_memory_follows_constants(device, axpb):
    """More than the device has is refused before its driver sees it."""
    source = AXPB.replace("struct Params", "layout(constant_id = 1) const uint WORDS = 64;\nstruct Params").replace(
        "void main() {", "shared uint words[WORDS];\nvoid main() {\n  words[gl_LocalInvocationIndex % WORDS] = 1;"
    )
    holds = lambda **given: compile_generated(source, name="holds", signature="rrwlf", constants=given)  # noqa: E731
    assert axpb.shared_bytes() == 0 and holds().shared_bytes() == 256 and holds(WORDS=1000).shared_bytes() == 4000
    x, zero, out = torch.ones(8, device=device), torch.zeros(8, device=device), torch.empty(8, device=device)
    holds()(x, zero, out, 8, 3.0, 1)
    assert out.tolist() == [3.0] * 8
    limit = _C.device_properties(0)["max_shared_bytes"]
    with pytest.raises(RuntimeError, match=rf"holds wants {limit + 16} bytes of shared memory"):
        holds(WORDS=limit // 4 + 4)(x, zero, out, 8, 1.0, 1)


def test_threads_compile_prepare_and_launch(device):
    """Eight threads, four kernels: each is compiled once, and none waits for ever."""

    def work(number):
        source = AXPB.replace("* p.a", f"* (p.a + {number % 4}.0)")
        kernel = compile_generated(source, name="in_threads", signature="rrwlf")
        kernel.prepare()
        x, out = torch.ones(100, device=device), torch.empty(100, device=device)
        for _ in range(20):
            kernel(x, x, out, 100, 1.0, 2)
        assert out.cpu().unique().tolist() == [2.0 + number % 4]
        return kernel

    kernels = in_threads(work, 8)
    assert kernels[:4] == kernels[4:] and len(set(kernels)) == 4


def test_pipelines_are_made_by_several_threads_at_once(device):
    """Twelve threads, six kernels of which two differ in nothing but their name: five pipelines, one of each."""
    names = [f"at_once_{i}" for i in range(5)] + ["at_once_again"]
    kernels = [
        compile_generated(AXPB.replace("* p.a", f"* (p.a + {10 + i % 5}.0)"), name=name, signature="rrwlf")
        for i, name in enumerate(names)
    ]

    def work(number):
        kernels[number % 6].prepare()
        x, out = torch.ones(10, device=device), torch.empty(10, device=device)
        kernels[number % 6](x, x, out, 10, 1.0, 1)
        assert out.cpu().unique().tolist() == [12.0 + number % 6 % 5]

    before = len(_C.active_pipelines(0))
    in_threads(work, 12)
    made = [label for label in _C.active_pipelines(0)[before:] if label.startswith("at_once")]
    assert len(made) == 5 and len(set(made)) == 5


CHECKED = """
layout(local_size_x = 64) in;
struct Params { uint64_t index, out_, record; int64_t bound; uint tag, n; };
#include "common/params.glsl"
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "common/errors.glsl"
void main() {
  uint64_t i = linear_invocation();
  if (i >= p.n) return;
  int64_t at = I64Ref(p.index + i * 8).v;
  if (at < 0 || at >= p.bound) {
    report_error(p.record, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag, at, p.bound);
    at = 0;
  }
  I64Ref(p.out_ + i * 8).v = at * 2;
}
"""


def test_the_error_record(device):
    """Its address and the kernel's tag are members that no caller gives; the error has the kernel's name."""
    kernel = compile_generated(CHECKED, name="checked_gather", signature="rweltu")
    assert kernel.signature == "rweltu"
    index = torch.tensor([1, 4, 2, 0], device=device)
    out = torch.empty_like(index)
    kernel(index, out, 5, 4, 1)
    torch.aule.synchronize()
    assert out.tolist() == [2, 8, 4, 0]
    kernel(index, out, 4, 4, 1)
    with pytest.raises(IndexError, match="checked_gather: index 4 is out of bounds for dimension with size 4"):
        torch.aule.synchronize()
    assert out.tolist() == [2, 0, 4, 0]
    with pytest.raises(TypeError, match="checked_gather: takes 4 arguments"):
        kernel(index, out, 0, 4, 0, 4, 1)


def test_properties(axpb):
    assert (axpb.name, axpb.__name__, axpb.signature, axpb.shared_bytes()) == (
        "axpb_generated", "axpb_generated", "rrwlf", 0
    )  # fmt: skip
    assert repr(axpb) == "<generated kernel axpb_generated(rrwlf)>" and isinstance(axpb, _C.GeneratedKernel)
    assert compile_generated(AXPB, name="axpb_generated", signature="rrwlf") is axpb
    assert compile_generated(AXPB, name="axpb_generated", signature="rrmlf") is not axpb


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("size, stride", [((), ()), ((0, 3), (3, 1)), ((4, 5), (5, 1)), ((4, 5), (1, 8)), ((3,), (0,))])
def test_empty_strided(device, dtype, size, stride):
    t = _C.empty_strided_aule(size, stride, dtype)
    like = torch.empty_strided(size, stride, dtype=dtype, device=device)
    assert (t.shape, t.stride(), t.dtype, t.device) == (like.shape, like.stride(), dtype, like.device)
    assert t.untyped_storage().nbytes() == like.untyped_storage().nbytes()
    assert not t.requires_grad and t._version == 0
    if stride != (0,):
        t.copy_(torch.ones(size, dtype=dtype))
        assert torch.equal(t.cpu(), torch.ones(size, dtype=dtype))


def test_empty_strided_refuses():
    for kind, text, arguments in [
        (TypeError, "size must be a tuple", ([2], (1,), torch.float32)),
        (TypeError, "dtype must be", ((2,), (1,), "float32")),
        (TypeError, "takes size, stride", ((2,), (1,))),
        (RuntimeError, "negative dimension", ((-2,), (1,), torch.float32)),
        (RuntimeError, "invalid device index 63", ((2,), (1,), torch.float32, 63)),
        (ValueError, "no device has the index 1000", ((2,), (1,), torch.float32, 1000)),
        (TypeError, "integer", ((2.5,), (1,), torch.float32)),
    ]:
        with pytest.raises(kind, match=text):
            _C.empty_strided_aule(*arguments)


def test_two_devices():
    devices = {"AULE_VISIBLE_DEVICES": "0,0", "TORCH_AULE_VISIBLE_DEVICES": "0,0"}
    printed = check_program("shader_generated_two_devices", AXPB, **devices)
    assert "aule:1 aule:0 [9.0, 9.0, 9.0, 9.0] 0" in printed
    assert "axpb: b is on aule:0, but a tensor before it is on aule:1" in printed


def test_a_launch_costs_less_than_an_operator(device, axpb):
    """Recording only: the queue is longer than what is launched. An in-place add is what a launch competes with."""
    n = 64
    x, b, out = (torch.ones(n, device=device) for _ in range(3))

    def best(call, count=200):
        times = []
        for _ in range(30):
            torch.aule.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                call()
            times.append((time.perf_counter() - start) / count)
        return min(times)

    generated, eager = best(lambda: axpb(x, b, out, n, 1.0, 1)), best(lambda: out.add_(1))
    assert generated < 1.5 * eager, (generated, eager)
