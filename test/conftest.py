"""Every test runs strict: an operator without a kernel of ours fails the test instead of running on the CPU."""

import functools
import gc
import os
import random
import re
from contextlib import ExitStack
from pathlib import Path

# Read when the extension starts, so they must stand before the import.
os.environ.setdefault("TORCH_AULE_STRICT", "1")

# Workers of one machine share its cores, and so do the processes that tests start.
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // _workers)))

import pytest  # noqa: E402
import torch  # noqa: E402

from fork_server import show_stacks_of_fatal_signals  # noqa: E402
from torch_aule import _C, tune  # noqa: E402

show_stacks_of_fatal_signals()

# torch.manual_seed keeps a formatted stack for the day when one of these starts, which takes 1 ms each time.
for _other in (torch.cuda, torch.xpu, torch.mtia):
    if not _other.is_available():
        _other.manual_seed_all = lambda seed: None

# Tests hold float32 convolutions against float64 to float32's own accuracy; PyTorch's default allows TF32's.
torch.backends.cudnn.allow_tf32 = False

VALIDATION = os.environ.get("TORCH_AULE_VALIDATION", "0") not in ("", "0")


def pytest_report_header(config):
    if not torch.aule.is_available():
        return f"aule: no device ({torch.aule.unavailable_reason()})"
    p = torch.aule.get_device_properties(0)
    state = "on" if VALIDATION else "off"
    return f"aule: {p.name}, {p.driver_name} {p.driver_info}, strict {torch.aule.is_strict()}, validation {state}"


def pytest_collection_finish(session):
    """What the imports have made stays: the collector need not look at it again after every few compilations."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000)


@functools.cache
def _files_with(mark):
    names = re.compile(rf"\bpytest\.mark\.{mark}\b")
    return {path for path in Path(__file__).parent.glob("*/test_*.py") if names.search(path.read_text())}


def pytest_ignore_collect(collection_path, config):
    """With `-m SUITE` only the files that name it are imported: importing all takes as long as some suites run."""
    suite = config.getoption("markexpr")
    files = _files_with("validated" if suite == "layered" else suite) if suite.isidentifier() else ()
    return True if files and collection_path.suffix == ".py" and collection_path not in files else None


LAYERED_SETS = 6  # of the parameters of a test marked `validated`: under the layers in `make test`


def _spread(items, count):
    """`count` of the items, the first and the last among them, at about equal distances."""
    if count >= len(items):
        return items
    return [items[round(i * (len(items) - 1) / max(count - 1, 1))] for i in range(count)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks `layered` what a validated pass runs. `make test` (TORCH_AULE_TEST_SAMPLED) takes a sample of parameters:

    of tests marked `validated` some sets have the layers and the others run without, of tests marked `sampled(count)`
    only so many sets run. Without that variable, at night or by hand, every set does both.

    TORCH_AULE_TEST_SHARE=i/n takes every nth test from the ith on (from 0): a suite under many devices' limits in less
    time, each device with a share of its own.
    """
    whole = os.environ.get("TORCH_AULE_TEST_SAMPLED", "0") in ("", "0")
    share, shares = map(int, os.environ.get("TORCH_AULE_TEST_SHARE", "0/1").split("/"))
    functions, left_out = {}, {item.nodeid for i, item in enumerate(items) if i % shares != share}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for sets in functions.values():
        validated, sampled = (sets[0].get_closest_marker(name) for name in ("validated", "sampled"))
        if sampled and not whole:
            kept = _spread(sets, sampled.args[0])
            left_out |= {item.nodeid for item in sets} - {item.nodeid for item in kept}
            sets = kept
        if validated:
            every = whole or validated.kwargs.get("every")
            for item in sets if every else _spread(sets, LAYERED_SETS):
                item.add_marker("layered")
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


@pytest.fixture(scope="session")
def device():
    """The device under test. Without one the suite fails: skipping everything would look like success."""
    if not torch.aule.is_available():
        pytest.fail(f"no aule device: {torch.aule.unavailable_reason()}")
    return torch.device("aule")


@pytest.fixture(autouse=True)
def seeded():
    """Inputs are fresh for each test and each run; the seed is printed with a failing test and can be set."""
    seed = int(os.environ.get("TORCH_AULE_TEST_SEED", "0")) or torch.seed() % 2**31
    torch.manual_seed(seed)
    random.seed(seed)  # PyTorch's operator database draws from it
    print(f"TORCH_AULE_TEST_SEED={seed}")
    yield


DOUBLE = (torch.float64, torch.complex128)


def _computes_in_double(item):
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return item.get_closest_marker("float64") or any(isinstance(p, torch.dtype) and p in DOUBLE for p in parameters)


@pytest.fixture(autouse=True)
def dtypes_of_the_device(request):
    """Tests marked `float64`, and sets of parameters with such a dtype, are skipped where the device has none."""
    if _computes_in_double(request.node) and not torch.aule.get_device_properties().float64:
        pytest.skip("the device has no float64")


@pytest.fixture
def override():
    """`override(attention_variant="simt")`: until the test ends, plans are made so (torch_aule.tune.override)."""
    with ExitStack() as stack:
        yield lambda **values: stack.enter_context(tune.override(**values))


# A processor's driver compiles kernels on matrices for minutes where they have masks or biases: at night. In make test
# each form has one test with `matrix_family`; the kernels without matrices are those of the installed driver.
@pytest.fixture(
    params=[
        pytest.param(name, marks=[pytest.mark.current_lavapipe, pytest.mark.current_long])
        for name in ("simd", "simt", "coopmat", "coopmat_opaque")
    ]
)
def attention_family(request, override):
    """Attention with one family of kernels."""
    return _attention_family(request.param, override)


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.current_lavapipe) for name in ("coopmat", "coopmat_opaque")]
)
def matrix_family(request, override):
    """Attention with one family of kernels on cooperative matrices."""
    return _attention_family(request.param, override)


def _attention_family(name, override):
    from matrix_units import ON_CPU, SMALL_SHAPES, has_matrices

    what = {"coopmat": "known", "coopmat_opaque": "usable"}.get(name)
    if what and not has_matrices(torch.float16, what):
        pytest.skip("the device has no such cooperative matrices")
    override(attention_variant=name, **(SMALL_SHAPES if ON_CPU and what == "known" else {}))
    return name


@pytest.fixture
def as_gpu():
    """What torch.compile generates for GPUs, on software devices too."""
    from torch_aule.compile.codegen import facts

    with facts.override(software=False):
        yield


@pytest.fixture
def fresh_compiler():
    """Nothing that was compiled before, in this process or in Inductor's caches."""
    from torch._dynamo import guards
    from torch._inductor.utils import fresh_inductor_cache

    # A number for logs, measured once the processor's caches are emptied.
    guards.profile_guard_manager = lambda *_: 0.0
    torch._dynamo.reset()
    with fresh_inductor_cache():
        yield
    torch._dynamo.reset()


@pytest.fixture
def not_strict():
    """For tests of the CPU fallback itself."""
    with torch.aule.strict(False):
        yield


_counted = 0  # messages of the validation layers that a test has answered for


def _check_validation(outcome):
    """Fail this phase of the test with the messages that came since the last one."""
    global _counted
    if _C.is_initialized():
        try:
            torch.aule.synchronize()
        except Exception:
            if outcome.excinfo is None:
                raise
    new = _C.validation_message_count() - _counted
    _counted += new
    if new and outcome.excinfo is None:
        messages = "\n".join(_C.validation_messages()[-new:][:5])
        outcome.force_exception(AssertionError(f"{new} message(s) of the validation layers:\n{messages}"))


# What a device cannot do by nature, or by the limits that TORCH_AULE_LIMITS sets: no fault of a kernel.
LACKS = {
    r"no float64 arithmetic|needs float64, which": (
        "the device has no float64", lambda: not torch.aule.get_device_properties().float64,
    ),
    r"larger than the device's largest (buffer|allocation)": (
        "the device has no buffer as large", lambda: "TORCH_AULE_LIMITS" in os.environ,
    ),
}  # fmt: skip


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test that needs what the device lacks is skipped with this as its cause, where it does not test the lack."""
    outcome = yield
    failure = str(outcome.excinfo[1]) if outcome.excinfo else ""
    for pattern, (cause, holds) in LACKS.items():
        if re.search(pattern, failure) and holds():
            outcome.force_exception(pytest.skip.Exception(cause, _use_item_location=True))


if VALIDATION:

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(item):
        _check_validation((yield))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_teardown(item):
        _check_validation((yield))
