"""The module torch.aule, torch.accelerator through it, import and autoload, several devices, random state."""

import os
import pickle
import re
from pathlib import Path

import pytest
import torch

import torch_aule
from helpers import assert_close, check_program, check_python, run_python
from torch_aule import _version

pytestmark = pytest.mark.smoke


def test_registered(device):
    assert torch.aule.is_available() and torch.aule.device_count() >= 1
    assert torch.aule.unavailable_reason() == ""
    assert torch._C._get_privateuse1_backend_name() == "aule"
    assert torch.device("aule:0").type == "aule"
    assert torch.accelerator.current_accelerator().type == "aule"
    assert torch.accelerator.device_count() == torch.aule.device_count()
    assert torch_aule.__version__.count(".") == 2


def test_every_public_name_exists():
    for name in torch.aule.__all__:
        assert getattr(torch.aule, name) is not None or name in ("Graph", "graph"), name
    import torch.aule.memory as memory

    assert memory.memory_allocated is torch.aule.memory_allocated
    with pytest.raises(AttributeError):
        torch.aule.no_such_name  # noqa: B018


def test_properties(device):
    p = torch.aule.get_device_properties(device)
    assert p.name == torch.aule.get_device_name() == torch.aule.get_device_name("aule:0")
    assert p.total_memory > 0 and p.kind in ("discrete", "integrated", "virtual", "cpu", "other")
    assert p.multi_processor_count >= 0
    assert torch.aule.get_device_capability() >= (1, 3)
    assert p.name in repr(p) and "name" in p.as_dict()
    with pytest.raises(AttributeError, match="no_such"):
        p.no_such  # noqa: B018
    assert torch.aule.is_bf16_supported()
    assert torch.aule.get_arch_list() == ["spirv"]
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.complex64 not in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_current_device(device):
    assert torch.aule.current_device() == 0
    torch.aule.set_device(0)
    torch.aule.set_device(-1)
    with (
        torch.aule.device(0),
        torch.aule.device("aule"),
        torch.aule.device(None),
        torch.aule.device(torch.device("aule", 0)),
    ):
        assert torch.aule.current_device() == 0
    with torch.aule.device_of(torch.empty(1)), torch.aule.device_of(torch.empty(1, device=device)):
        assert torch.accelerator.current_device_index() == 0
    for bad in (torch.aule.device_count(), 99):
        with pytest.raises(RuntimeError, match="aule"):
            torch.aule.set_device(bad)
    with pytest.raises(ValueError, match="cpu"):
        torch.aule.set_device("cpu")
    with pytest.raises(TypeError):
        torch.aule.set_device(1.5)
    with pytest.raises(RuntimeError):
        torch.empty(1, device="aule:99")
    assert torch.empty(1, device=device).device == torch.device("aule:0")


def test_methods_and_default_device(device):
    x = torch.randn(3, 5)
    assert x.aule().device.type == "aule" and x.aule(0).is_aule and not x.is_aule
    assert_close(x.aule(), x)
    assert_close(x.to(device, non_blocking=True).to("cpu", non_blocking=False), x)
    layer = torch.nn.Linear(5, 2).aule()
    assert layer.weight.device.type == "aule"
    assert layer.cpu().weight.device.type == "cpu"
    with torch.device("aule"):
        assert torch.zeros(2).is_aule
    torch.set_default_device("aule")
    try:
        assert torch.ones(2).is_aule
    finally:
        torch.set_default_device(None)


def test_repr(device):
    x = torch.tensor([[1.0, -2.5], [float("inf"), 3e-7]])
    text = repr(x.to(device))
    assert "device='aule:0'" in text
    assert text.replace(", device='aule:0'", "") == repr(x)
    for t in (
        torch.arange(2000),
        torch.tensor([True, False]),
        torch.empty(0, 3),
        torch.tensor(3),
        torch.randn(3).bfloat16(),
    ):
        assert repr(t.to(device)).replace("device='aule:0', ", "").replace(", device='aule:0'", "") == repr(t)


def test_item_and_bool(device):
    assert torch.tensor(2.5, device=device).item() == 2.5
    assert torch.tensor([7], device=device, dtype=torch.int64).item() == 7
    assert bool(torch.tensor(True, device=device))
    assert torch.tensor([1, 2, 3], device=device).tolist() == [1, 2, 3]
    assert float(torch.tensor(1.5, device=device, dtype=torch.bfloat16)) == 1.5


def test_numpy_is_refused(device):
    x = torch.randn(4, device=device)
    assert x.cpu().numpy().shape == (4,)
    with pytest.raises(TypeError):
        x.numpy()


def test_resize_and_storage(device):
    x = torch.arange(6, dtype=torch.float32, device=device)
    x.resize_(3)
    assert x.tolist() == [0, 1, 2]
    x.resize_(12)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    y = torch.empty(0, device=device).set_(torch.ones(4, device=device).untyped_storage(), 1, (3,), (1,))
    assert y.tolist() == [1, 1, 1]


# --- random state -------------------------------------------------------------------------------------------------


def test_seeds(device):
    torch.manual_seed(5)
    first = torch.rand(100, device=device)
    torch.aule.manual_seed(5)
    assert torch.equal(first.cpu(), torch.rand(100, device=device).cpu())
    assert torch.aule.initial_seed() == 5
    torch.aule.manual_seed_all(6)
    assert not torch.equal(first.cpu(), torch.rand(100, device=device).cpu())
    torch.aule.manual_seed(-3)
    torch.aule.seed()
    torch.aule.seed_all()
    assert 0 <= torch.aule.initial_seed() < 2**64


def test_rng_state(device):
    state = torch.aule.get_rng_state()
    states = torch.aule.get_rng_state_all()
    assert state.dtype == torch.uint8 and state.device.type == "cpu" and len(states) == torch.aule.device_count()
    a = torch.randn(33, device=device)
    torch.aule.set_rng_state(state)
    assert torch.equal(a.cpu(), torch.randn(33, device=device).cpu())
    torch.aule.set_rng_state_all(pickle.loads(pickle.dumps(states)))
    assert torch.equal(a.cpu(), torch.randn(33, device=device).cpu())
    with torch.random.fork_rng(device_type="aule"):
        torch.rand(7, device=device)
        inside = torch.aule.get_rng_state()
    assert not torch.equal(inside, torch.aule.get_rng_state())
    with pytest.raises(TypeError):
        torch.aule.set_rng_state(torch.zeros(4))
    with pytest.raises(RuntimeError):
        torch.aule.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_generator(device):
    g = torch.Generator(device=device)
    g.manual_seed(11)
    a = torch.rand(50, device=device, generator=g)
    h = torch.Generator(device=device).manual_seed(11)
    assert torch.equal(a.cpu(), torch.rand(50, device=device, generator=h).cpu())
    assert g.initial_seed() == 11 and g.device.type == "aule"
    h.set_state(g.get_state())
    assert torch.equal(torch.rand(5, device=device, generator=g).cpu(), torch.rand(5, device=device, generator=h).cpu())
    default = torch.aule.default_generators[0]
    default.manual_seed(11)
    assert torch.equal(a.cpu(), torch.rand(50, device=device).cpu())


# --- import, autoload, fork: each in an interpreter of its own -------------------------------------------------------


def test_import_order():
    check_python("import torch_aule, torch; assert torch.aule.is_available()", TORCH_DEVICE_BACKEND_AUTOLOAD=None)
    check_python("import torch, torch_aule; assert torch.aule.is_available()", TORCH_DEVICE_BACKEND_AUTOLOAD=None)


@pytest.mark.parametrize("wish, registered", [("1", True), ("0", False), (None, None)])
def test_autoload(device, wish, registered):
    if registered is None:  # neither for a software device nor beside a built-in accelerator
        built_in = torch.cuda.is_available() or torch.xpu.is_available() or torch.backends.mps.is_available()
        kinds = {torch.aule.get_device_properties(i).kind for i in range(torch.aule.device_count())}
        registered = not built_in and kinds != {"cpu"}
    check_program("device_autoload", str(registered), TORCH_AULE_AUTOLOAD=wish, TORCH_DEVICE_BACKEND_AUTOLOAD=None)


def test_autoload_and_explicit_import_first(device):
    check_program("device_autoload", "explicit", TORCH_DEVICE_BACKEND_AUTOLOAD=None, TORCH_AULE_AUTOLOAD=None)


def test_autoload_survives_a_broken_extension():
    words = ("undefined symbol", "rebuild")
    check_program("device_refused", "extension", *words, TORCH_AULE_AUTOLOAD="1", TORCH_DEVICE_BACKEND_AUTOLOAD=None)


def test_unsupported_torch_is_refused_politely():
    check_program("device_refused", "version", "2.99.1", "2.11", TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_a_torch_that_the_extension_was_not_built_for():
    """Symbols may all be there, and virtual functions elsewhere: refused before it is loaded, naming the wheel."""
    built = ".".join(torch.__version__.split(".")[:2])
    other = "2.12" if built == "2.11" else "2.11"
    words = f"built for torch {built}", f"found torch {other}.1", f"torch_aule-{torch_aule.__version__}+torch{other}"
    check_program("device_refused", "minor", *words, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_the_versions_of_torch_are_the_same_everywhere():
    oldest, newer = (".".join(map(str, v)) for v in (_version.TORCH_OLDEST, _version.TORCH_NEWER_THAN_TESTED))
    root = Path(__file__).resolve().parents[2]
    assert f'"torch>={oldest},<{newer}",' in (root / "pyproject.toml").read_text()
    newest = f"2.{_version.TORCH_NEWER_THAN_TESTED[1] - 1}"
    assert f"torch {oldest} to {newest}" in (root / "README.md").read_text()
    tested = set(re.findall(r'torch: "(2\.\d+)\.', (root / ".github/workflows/test.yml").read_text()))
    assert tested == {f"2.{minor}" for minor in range(_version.TORCH_OLDEST[1], _version.TORCH_NEWER_THAN_TESTED[1])}
    (wheels,) = re.findall(r"torch: \[(.*)\]", (root / ".github/workflows/wheels.yml").read_text())
    assert set(re.findall(r'"(2\.\d+)\.', wheels)) == tested


def test_name_taken_by_another_backend():
    check_program("device_refused", "name", "'other'", TORCH_DEVICE_BACKEND_AUTOLOAD="0")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_gives_a_clear_error(device):
    check_program("device_fork")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_the_ends_of_children_leave_the_device_alone(device):
    """Handlers of C libraries run at the end of the parent alone: a driver's would end the parent's device."""
    lines = check_program("device_fork_exits").splitlines()
    assert lines[-2:] == ["the parent is right", "a destructor ran"] and lines.count("a destructor ran") == 1
    assert lines.count("a child's last line") == 4
    assert lines.count("and C's") >= 3  # multiprocessing need not write what C has in its buffer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_counting_devices_does_not_poison_fork(device):
    check_program("device_fork_after_counting")


def test_two_logical_devices(device):
    check_program("device_two_logical", TORCH_AULE_VISIBLE_DEVICES="0,0")


def test_a_device_is_chosen_by_name_and_uuid(device):
    p = torch.aule.get_device_properties()
    code = "import torch, torch_aule; print(*[torch.aule.get_device_properties(0).uuid] * torch.aule.device_count())"
    for choice in (p.name.upper(), p.name[:8], p.uuid[:12]):
        assert check_python(code, TORCH_AULE_VISIBLE_DEVICES=choice).split()[0] == p.uuid, choice


def test_no_device():
    text = check_program("device_none", TORCH_AULE_VISIBLE_DEVICES="no such device")
    assert "no device" in text


def test_info_and_collect_env(device, capsys):
    torch.ones(1, device=device)  # what serves attention is known of a device that is in use
    torch_aule.print_backend_info()
    text = capsys.readouterr().out
    assert torch.aule.get_device_name() in text and "variants run" in text and "driver" in text
    for head in ("memory", "attention", "products", "missing"):
        assert f"\n  {head} " in text, head
    assert len(text.splitlines()) < 25 * torch.aule.device_count(), "one screen"
    assert "softmax" not in text and "\n  softmax " in torch_aule.info.backend_info(kernels=True)
    done = run_python("import runpy; runpy.run_module('torch_aule.info', run_name='__main__')")
    assert done.returncode == 0 and "aule:0" in done.stdout
