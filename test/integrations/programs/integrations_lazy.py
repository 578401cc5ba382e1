"""torch_aule imported first: it imports nobody, and each hook comes with the package that it is for."""

import os
import sys
import warnings

warnings.simplefilter("ignore")
os.environ.pop("ACCELERATE_TORCH_DEVICE", None)

import torch_aule.integrations

PACKAGES = {"accelerate", "transformers", "safetensors", "diffusers", "peft", "triton"}
assert not PACKAGES & set(sys.modules), PACKAGES & set(sys.modules)
assert {row.state for row in torch_aule.integrations.status()} == {"pending"}
assert not PACKAGES & set(sys.modules), "status() imported something"


def states(package):
    return {row.hook: row.state for row in torch_aule.integrations.status() if row.package == package}


import safetensors.torch

assert states("safetensors") == {"safe_open": "applied"}
assert safetensors.torch.safe_open is safetensors.safe_open
import accelerate

assert [hook for hook, state in states("accelerate").items() if state != "applied"] == ["launch"]
import accelerate.commands.launch

assert set(states("accelerate").values()) == {"applied"}
assert set(states("transformers").values()) == {"pending"}
import transformers

assert states("transformers")["pipeline"] == "pending", "transformers imports its parts when they are used"
transformers.pipeline, transformers.Trainer, transformers.TrainingArguments  # noqa: B018
later = {hook for hook, state in states("transformers").items() if state != "applied"}
assert later == {"gguf_configurations", "mxfp4_experts"}, later
import transformers.integrations.gguf.gguf_config_mapping
import transformers.integrations.mxfp4

assert set(states("transformers").values()) == {"applied"}, states("transformers")
assert accelerate.Accelerator().device.type == "aule"
