"""The module torch.aule, torch.accelerator through it, import and autoload, several devices, random state."""

import os
import pickle

import pytest
import torch

import torch_aule
from helpers import assert_close, check_python, run_python


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


AUTOLOAD = """
import importlib.metadata as m
real = m.entry_points
point = m.EntryPoint("torch_aule", "torch_aule:_autoload", "torch.backends")
m.entry_points = lambda **kw: [point] if kw.get("group") == "torch.backends" else real(**kw)
"""


@pytest.mark.parametrize("wish, registered", [("1", True), ("0", False), (None, None)])
def test_autoload(device, wish, registered):
    if registered is None:  # neither for a software device nor beside a built-in accelerator
        built_in = torch.cuda.is_available() or torch.xpu.is_available() or torch.backends.mps.is_available()
        kinds = {torch.aule.get_device_properties(i).kind for i in range(torch.aule.device_count())}
        registered = not built_in and kinds != {"cpu"}
    code = AUTOLOAD + (
        "import torch\n"
        f"assert hasattr(torch, 'aule') is {registered}, 'registered: %s' % hasattr(torch, 'aule')\n"
        "import torch_aule\n"
        "assert torch.aule.is_available()\n"
        "assert torch_aule._C.device_count() and torch.ones(2, device='aule').sum().item() == 2\n"
    )
    check_python(code, TORCH_AULE_AUTOLOAD=wish, TORCH_DEVICE_BACKEND_AUTOLOAD=None)


def test_autoload_and_explicit_import_first(device):
    code = AUTOLOAD + "import torch_aule, torch; assert torch.aule.is_available() and torch_aule.print_backend_info"
    check_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD=None, TORCH_AULE_AUTOLOAD=None)


def test_autoload_survives_a_broken_extension():
    code = AUTOLOAD + (
        "import sys, types\n"
        "sys.meta_path.insert(0, type('F', (), {'find_spec': staticmethod(\n"
        "    lambda name, path=None, target=None: (_ for _ in ()).throw(ImportError('undefined symbol: _ZN3c10'))\n"
        "    if name == 'torch_aule._C' else None)}))\n"
        "import torch\n"
        "assert not hasattr(torch, 'aule') and torch.ones(2).sum() == 2\n"
        "try:\n    import torch_aule\n"
        "except ImportError as e:\n    assert 'undefined symbol' in str(e) and 'rebuild' in str(e), e\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    check_python(code, TORCH_AULE_AUTOLOAD="1", TORCH_DEVICE_BACKEND_AUTOLOAD=None)


def test_unsupported_torch_is_refused_politely():
    code = (
        "import torch; torch.__version__ = '2.99.1'\n"
        "try:\n    import torch_aule\n"
        "except ImportError as e:\n    assert '2.99.1' in str(e) and '2.11' in str(e), e\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    check_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_name_taken_by_another_backend():
    code = (
        "import torch; torch.utils.rename_privateuse1_backend('other')\n"
        "try:\n    import torch_aule\n"
        "except ImportError as e:\n    assert \"'other'\" in str(e), e\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    check_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_gives_a_clear_error(device):
    code = (
        "import os, torch, torch_aule\n"
        "torch.ones(2, device='aule').cpu()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    code = 1\n"
        "    try:\n"
        "        assert torch.aule._is_in_bad_fork()\n"
        "        torch.ones(2, device='aule')\n"
        "    except RuntimeError as e:\n"
        "        code = 0 if 'fork' in str(e) else 2\n"
        "    os._exit(code)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
        "assert not torch.aule._is_in_bad_fork() and torch.ones(2, device='aule').sum().item() == 2\n"
    )
    check_python(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_counting_devices_does_not_poison_fork(device):
    code = (
        "import os, torch, torch_aule\n"
        "assert torch.aule.device_count() and torch.aule.is_available(); torch.manual_seed(0)\n"
        "torch.aule.get_device_properties(); assert not torch.aule.is_initialized()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        os._exit(0 if torch.ones(2, device='aule').sum().item() == 2 else 1)\n"
        "    except RuntimeError as e:\n"
        "        # some drivers make no device in a child whose parent has an instance; then that must be said\n"
        "        os._exit(0 if 'VK_ERROR' in str(e) or 'fork' in str(e) else 2)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
    )
    check_python(code)


def test_two_logical_devices(device):
    code = """
import torch, torch_aule
assert torch.aule.device_count() == 2
a = torch.arange(1000, dtype=torch.float32, device='aule:0')
b = a.to('aule:1')
assert b.device.index == 1 and torch.equal(a.cpu(), b.cpu())
with torch.aule.device(1):
    assert torch.aule.current_device() == 1
    c = torch.zeros(3, device='aule')
    assert c.device.index == 1
    assert torch.aule.current_stream().device.index == 1
assert torch.aule.current_device() == 0
with torch.Stream(device='aule:1'):
    assert torch.aule.current_device() == 1
b.fill_(2)
a.copy_(b)
assert a.sum().item() == 2000
with torch.aule.device_of(b):
    assert torch.aule.current_device() == 1
torch.aule.manual_seed_all(3)
x = torch.rand(5, device='aule:0'); y = torch.rand(5, device='aule:1')
assert torch.equal(x.cpu(), y.cpu())
assert torch.aule.memory_allocated(1) > 0 and torch.aule.memory_allocated(0) > 0
torch.aule.synchronize(1)
try:
    a + b
except RuntimeError as e:
    assert 'aule' in str(e)
else:
    raise SystemExit('two devices in one operation')
"""
    check_python(code, TORCH_AULE_VISIBLE_DEVICES="0,0")


def test_a_device_is_chosen_by_name_and_uuid(device):
    p = torch.aule.get_device_properties()
    code = "import torch, torch_aule; print(*[torch.aule.get_device_properties(0).uuid] * torch.aule.device_count())"
    for choice in (p.name.upper(), p.name[:8], p.uuid[:12]):
        assert check_python(code, TORCH_AULE_VISIBLE_DEVICES=choice).split()[0] == p.uuid, choice


def test_no_device():
    code = """
import torch, torch_aule
assert not torch.aule.is_available() and torch.aule.device_count() == 0
assert torch.aule.unavailable_reason()
torch.manual_seed(0); torch.aule.empty_cache(); torch.aule.manual_seed(1); torch.aule.seed_all()
assert torch.aule.memory_allocated.__name__ and not torch.aule.is_bf16_supported()
for call in (lambda: torch.ones(2, device='aule'), torch.aule.get_device_name, lambda: torch.ones(2).aule()):
    try:
        call()
    except RuntimeError as e:
        assert 'aule' in str(e).lower() or 'vulkan' in str(e).lower(), e
    else:
        raise SystemExit('no error')
torch_aule.print_backend_info()
"""
    text = check_python(code, TORCH_AULE_VISIBLE_DEVICES="no such device")
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
