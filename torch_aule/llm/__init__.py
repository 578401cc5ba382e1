"""Language models: decoding by recorded steps, caches in pages, guesses that are checked.

Needs transformers (``pip install torch_aule[llm]``).
"""

try:
    import transformers  # noqa: F401  all of this stands on it
except ImportError as error:
    raise ImportError("torch_aule.llm needs transformers: pip install torch_aule[llm]") from error

from torch_aule.llm.cache import UnsupportedModelError
from torch_aule.llm.language_model import LanguageModel
from torch_aule.llm.loading import LoadError, from_gguf, from_safetensors, load
from torch_aule.llm.request import Request, Snapshot
from torch_aule.llm.runner import Runner
from torch_aule.llm.speculative import DraftModel, Jacobi, PromptLookup, SelfSpeculative, Strategy

__all__ = [
    "DraftModel",
    "Jacobi",
    "LanguageModel",
    "LoadError",
    "PromptLookup",
    "Request",
    "Runner",
    "SelfSpeculative",
    "Snapshot",
    "Strategy",
    "UnsupportedModelError",
    "from_gguf",
    "from_safetensors",
    "load",
]
