"""The cases, a file for each group: `GROUPS[name](sizes)` lists them."""

from torch_aule.benchmark.cases.accuracy import accuracy
from torch_aule.benchmark.cases.attention import attention
from torch_aule.benchmark.cases.audio import audio
from torch_aule.benchmark.cases.chains import chains
from torch_aule.benchmark.cases.chosen import chosen
from torch_aule.benchmark.cases.compiled import compiled
from torch_aule.benchmark.cases.decode import decode
from torch_aule.benchmark.cases.dispatch import dispatch
from torch_aule.benchmark.cases.fft import fft
from torch_aule.benchmark.cases.gemm import gemm
from torch_aule.benchmark.cases.gpt2 import gpt2
from torch_aule.benchmark.cases.layers import layers
from torch_aule.benchmark.cases.linalg import linalg
from torch_aule.benchmark.cases.memory import memory
from torch_aule.benchmark.cases.models import models
from torch_aule.benchmark.cases.norms import copy_reference, norms
from torch_aule.benchmark.cases.pointwise import pointwise
from torch_aule.benchmark.cases.quantized import quantized
from torch_aule.benchmark.cases.reference import reference
from torch_aule.benchmark.cases.startup import startup
from torch_aule.benchmark.harness.case import Case, Sizes

__all__ = ["GROUPS", "chosen", "copy_reference", "with_key"]

GROUPS = {
    "attention": attention,
    "gemm": gemm,
    "norms": norms,
    "decode": decode,
    "gpt2": gpt2,
    "layers": layers,
    "fft": fft,
    "linalg": linalg,
    "models": models,
    "audio": audio,
    "quantized": quantized,
    "reference": reference,
    "startup": startup,
    "chains": chains,
    "pointwise": pointwise,
    "dispatch": dispatch,
    "accuracy": accuracy,
    "memory": memory,
    "compile": compiled,
}


def with_key(key: tuple[str, str, str, str], sizes: Sizes) -> Case:
    """The case of that key, of its group or of those that the command line describes."""
    cases = [*GROUPS[key[0]](sizes)] if key[0] in GROUPS else []
    return next(case for case in [*chosen(sizes), *cases] if case.key == key)
