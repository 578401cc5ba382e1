"""Packages imported before torch_aule: hooks apply at once, and taking them back leaves every name as it was."""

import os
import sys
import warnings

warnings.simplefilter("ignore")
os.environ.pop("ACCELERATE_TORCH_DEVICE", None)

import importlib

for name in (
    "accelerate.accelerator",
    "accelerate.checkpointing",
    "accelerate.commands.launch",
    "accelerate.state",
    "accelerate.utils.modeling",
    "safetensors.torch",
    "transformers.integrations.accelerate",
    "transformers.integrations.finegrained_fp8",
    "transformers.integrations.gguf.gguf_config_mapping",
    "transformers.integrations.mxfp4",
    "transformers.integrations.sdpa_attention",
    "transformers.modeling_utils",
    "transformers.pipelines.base",
    "transformers.trainer",
    "transformers.training_args",
):
    importlib.import_module(name)

import accelerate
import torch
from safetensors import safe_open as imported_before  # noqa: F401

PACKAGES = ("accelerate", "transformers", "safetensors", "peft")


def watches(finder):
    """Does it watch for packages? torch.compile and Triton have finders of the same kind."""
    return type(finder).__name__ == "ImportWatch" and not all(
        name.startswith(("torch.", "triton.")) for name in finder._names
    )


def picture():
    """Every function, class, attribute and code object of the packages, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in (*PACKAGES, "__main__") or module is None:
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and value.__module__.split(".")[0] in PACKAGES:
                for attribute, member in list(vars(value).items()):
                    found[name, key, attribute] = member
                    found[name, key, attribute, "code"] = getattr(member, "__code__", None)
    return found


def changed(before, after):
    return {".".join(name) for name in before if name in after and after[name] is not before[name]}


before = picture()
import torch_aule.integrations

applied = changed(before, picture())
for expected in (
    "accelerate.state.PartialState.default_device",
    "accelerate.accelerator.Accelerator.__init__.code",
    "accelerate.commands.launch._validate_launch_command",
    "accelerate.commands.launch.prepare_multi_gpu_env",
    "accelerate.utils.write_basic_config",
    "accelerate.utils.modeling.get_grad_scaler",
    "accelerate.accelerator.get_grad_scaler",  # imported by name before the hook came
    "transformers.integrations.accelerate.accelerate_max_memory",  # under another name
    "transformers.training_args.is_torch_bf16_gpu_available",
    "transformers.pipelines.base.Pipeline.__init__",
    "safetensors.safe_open",
    "safetensors.torch.safe_open",
    "__main__.imported_before",
):
    assert expected in applied, (expected, applied)
imported = ("accelerate", "transformers", "safetensors")
states = {row.state for row in torch_aule.integrations.status() if row.package in imported}
assert states == {"applied"}, torch_aule.integrations.status()
assert accelerate.state.PartialState().device.type == "aule"
accelerate.state.PartialState._reset_state()

torch_aule.integrations.disable("safetensors", "accelerate.fp16")
states = {(row.package, row.hook): (row.state, row.reason) for row in torch_aule.integrations.status()}
assert states["safetensors", "safe_open"] == ("skipped", "off by torch_aule.integrations.disable()")
assert states["accelerate", "fp16"][0] == "skipped" and states["accelerate", "max_memory"][0] == "applied"
from safetensors import safe_open as imported_off

own = [before["safetensors", "safe_open"]]  # in a list: a bare name would be patched with the rest
assert imported_off is own[0]

torch_aule.integrations.enable("safetensors")
from safetensors import safe_open as imported_on

assert imported_on is not own[0] and imported_off is not own[0]
torch_aule.integrations.disable()
assert imported_on is own[0] and imported_off is own[0], "names that were imported from a patched module"
left = changed(before, picture())
assert not left, left
assert accelerate.state.PartialState().device.type == "cpu"
accelerate.state.PartialState._reset_state()
assert not any(map(watches, sys.meta_path))

torch_aule.integrations.enable()
assert changed(before, picture()) >= applied
assert torch.aule.is_available()
