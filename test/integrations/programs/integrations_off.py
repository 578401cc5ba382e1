"""Run with TORCH_AULE_INTEGRATIONS=safetensors (one package stays on) and with =0 (none does)."""

import os
import sys
import warnings


def watches(finder):
    """Does it watch for packages? torch.compile and Triton have finders of the same kind."""
    return type(finder).__name__ == "ImportWatch" and not all(
        name.startswith(("torch.", "triton.")) for name in finder._names
    )


warnings.simplefilter("ignore")
import torch_aule.integrations

only = os.environ["TORCH_AULE_INTEGRATIONS"] != "0"
assert any(map(watches, sys.meta_path)) is only
import accelerate
import safetensors  # noqa: F401

rows = {(row.package, row.hook): row for row in torch_aule.integrations.status()}
assert rows["accelerate", "default_device"].state == "skipped", rows
assert "TORCH_AULE_INTEGRATIONS=" in rows["accelerate", "default_device"].reason
assert rows["safetensors", "safe_open"].state == ("applied" if only else "skipped")
assert accelerate.Accelerator().device.type == "cpu"
torch_aule.integrations.enable("accelerate")
accelerate.state.AcceleratorState._reset_state(True)
assert accelerate.Accelerator().device.type == "aule"
