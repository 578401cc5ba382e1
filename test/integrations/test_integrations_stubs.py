"""lightning, sentence-transformers and ultralytics find the device: on stand-ins for what is hooked in them.

The stand-ins have the names, signatures and answers of lightning 2.6, sentence-transformers 6.2 and ultralytics 8.4.
test_integrations_others.py has the packages themselves.
"""

import importlib
import shutil
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torch_aule.integrations import lightning, sentence_transformers, ultralytics
from torch_aule.integrations._registry import Registry

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="beside CUDA the packages choose it, and the hooks stay off"
)

STAND_INS = Path(__file__).parent / "stand_ins"
FILES = {
    "lightning/pytorch/accelerators.py": "lightning_accelerators",
    "lightning/pytorch/trainer/connectors/accelerator_connector.py": "lightning_connector",
    "lightning/fabric/accelerators.py": "lightning_accelerators",
    "lightning/fabric/connector.py": "lightning_connector",
    "sentence_transformers/util/environment.py": "sentence_transformers_environment",
    "ultralytics/utils/torch_utils.py": "ultralytics_torch_utils",
    "ultralytics/engine/trainer.py": "ultralytics_trainer",
}
PACKAGES = ("lightning", "sentence_transformers", "ultralytics")


@pytest.fixture
def stubs(tmp_path, monkeypatch, device):
    """The packages on disk, and the registry of hooks."""
    before = {name: m for name, m in sys.modules.items() if name.split(".")[0] in PACKAGES}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    for name, stand_in in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(STAND_INS / f"{stand_in}.py", path)
        for folder in path.parents:
            if folder == tmp_path:
                break
            (folder / "__init__.py").touch()
    package = tmp_path / "sentence_transformers"
    (package / "util/__init__.py").write_text("from sentence_transformers.util.environment import get_device_name\n")
    (package / "model.py").write_text("from sentence_transformers.util import get_device_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    hooks = [*lightning.HOOKS, *sentence_transformers.HOOKS, *ultralytics.HOOKS]
    told = [(hook, hook.state, hook.reason) for hook in hooks]  # by integrations.status(), whose hooks they are too
    registry = Registry(hooks)
    registry.start()
    yield registry
    registry.disable(())
    for hook, state, reason in told:
        hook.state, hook.reason = state, reason
    for name in [n for n in sys.modules if n.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    sys.modules.update(before)


def states(registry, package):
    return {row.hook: row.state for row in registry.status() if row.package == package}


LIGHTNING = [
    ("lightning.pytorch.accelerators", "lightning.pytorch.trainer.connectors.accelerator_connector", "trainer"),
    ("lightning.fabric.accelerators", "lightning.fabric.connector", "fabric"),
]


@pytest.mark.parametrize("accelerators, connector, kind", LIGHTNING)
def test_lightning(stubs, accelerators, connector, kind):
    registered = importlib.import_module(accelerators).AcceleratorRegistry
    module = importlib.import_module(connector)
    found = {hook: state for hook, state in states(stubs, "lightning").items() if hook.startswith(kind)}
    assert set(found.values()) == {"applied"} and len(found) == 3
    accelerator = registered["aule"]["accelerator"]
    assert accelerator.is_available() and accelerator.name() == "aule" and accelerator.auto_device_count() == 1
    for devices in (1, "1", [0], -1 if torch.aule.device_count() == 1 else [0], "0,"):
        assert accelerator.get_parallel_devices(devices) == [torch.device("aule", 0)]
    for devices in (torch.aule.device_count() + 1, [99], [0, 0], 0, []):
        with pytest.raises(ValueError, match="this machine has"):
            accelerator.parse_devices(devices)
    own = accelerator()
    own.setup_device(torch.device("aule", 0))
    kept = torch.ones(8, device="aule")  # a device that has memory has statistics
    assert own.get_device_stats(kept.device)["allocated_bytes.all.current"] > 0
    with pytest.raises(ValueError, match="expected a device aule"):
        own.setup_device(torch.device("cpu"))
    own.teardown()

    connect = module.Connector
    assert connect._choose_auto_accelerator() == "aule" == connect._choose_gpu_accelerator_backend()
    device = torch.device("aule", 0)
    for flag in ("aule", own):
        assert connect(flag, [device])._choose_strategy().device == device
        assert connect(flag, [device, device])._choose_strategy() == "ddp"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            half = connect(flag, [device], "16-mixed")._check_and_init_precision()
        assert half.device == "aule" and half.scaler.is_enabled() and half.scaler._device == "aule"
        assert connect(flag, [device], "bf16-mixed")._check_and_init_precision().scaler is None
    assert connect("cpu")._choose_strategy().device == "cpu"
    assert connect("cpu", (), "bf16-mixed")._check_and_init_precision().device == "cpu"
    given = connect("aule", [device], "16-mixed")
    given._precision_plugin_flag = module.MixedPrecision("bf16-mixed", "cuda")
    assert given._check_and_init_precision() is given._precision_plugin_flag

    stubs.disable(())
    assert "aule" not in registered and connect._choose_auto_accelerator() == "cpu"
    assert connect("aule", [device])._choose_strategy().device == "cpu"
    with pytest.raises(RuntimeError, match="No supported gpu backend"):
        connect._choose_gpu_accelerator_backend()


def test_sentence_transformers(stubs):
    from sentence_transformers.model import get_device_name

    assert states(stubs, "sentence_transformers") == {"device": "applied"}
    assert get_device_name() == "aule:0"
    import sentence_transformers.util.environment as environment

    assert environment.get_device_name() == "aule:0"
    stubs.disable(())
    import sentence_transformers.model as model

    assert model.get_device_name() == "cpu" == environment.get_device_name()


def test_ultralytics(stubs):
    from ultralytics.engine.trainer import BaseTrainer, select_device

    assert states(stubs, "ultralytics") == {"device": "applied", "scaler": "applied"}
    device = torch.device("aule", 0)
    for wish in ("aule", "aule:0", "AULE:0", "", None, 0, "0", [0], device):
        assert select_device(wish) == device, wish
    assert select_device("cpu", verbose=False) == torch.device("cpu") == select_device(torch.device("cpu"))
    with pytest.raises(ValueError, match="this machine has"):
        select_device("aule:99")
    with pytest.raises(ValueError, match="Invalid CUDA"):
        select_device("0,1")
    for amp in (True, False):
        trainer = BaseTrainer("aule", amp)
        trainer.args = SimpleNamespace(amp=amp)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trainer._setup_train()
        assert trainer.scaler._device == "aule" and trainer.scaler.is_enabled() == amp
    trainer.amp, trainer.args = True, SimpleNamespace(amp="bf16")
    trainer._setup_train()
    assert not trainer.scaler.is_enabled()


def test_beside_a_built_in_accelerator(stubs, monkeypatch):
    """What chooses for programs that name no device stays off; what serves those that name aule does not."""
    from torch_aule.integrations import patch

    monkeypatch.setattr(patch, "_built_in", ["cuda"])
    from lightning.fabric.connector import Connector
    from sentence_transformers.util import get_device_name
    from ultralytics.utils.torch_utils import select_device

    assert Connector._choose_auto_accelerator() == "cpu" == get_device_name()
    assert select_device("") == torch.device("cpu") and select_device("aule").type == "aule"
    with pytest.raises(RuntimeError, match="No supported gpu backend"):
        Connector._choose_gpu_accelerator_backend()


def test_other_versions_are_left_alone(stubs, tmp_path):
    """A package that does not look as expected gets no hook, and its import works."""
    (tmp_path / "lightning/fabric/connector.py").write_text("class Connector:\n    pass\n_Connector = Connector\n")
    (tmp_path / "ultralytics/utils/torch_utils.py").write_text("def select_device(*names):\n    return names\n")
    importlib.import_module("lightning.fabric.connector")
    module = importlib.import_module("ultralytics.utils.torch_utils")
    assert states(stubs, "lightning")["fabric.choices"] == "skipped" == states(stubs, "ultralytics")["device"]
    assert module.select_device("aule") == ("aule",)
