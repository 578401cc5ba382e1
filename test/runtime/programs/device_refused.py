"""torch_aule cannot be imported. The arguments: why, and every word that the error must have.

extension   the extension does not load; `import torch`, which finds the entry point, works all the same
version     a torch that is not supported
minor       a torch that is, but for which the extension was not built
name        another backend has taken PyTorch's place for one
"""

import sys

import entry_point  # noqa: F401


class Broken:
    """A finder to which the extension has a symbol too many."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch_aule._C":
            raise ImportError("undefined symbol: _ZN3c10")


why, *words = sys.argv[1:]
if why == "extension":
    sys.meta_path.insert(0, Broken)

import torch

if why == "version":
    torch.__version__ = "2.99.1"
elif why == "minor":
    torch.__version__ = "2.12.1" if torch.__version__.startswith("2.11.") else "2.11.1"
elif why == "name":
    torch.utils.rename_privateuse1_backend("other")
assert not hasattr(torch, "aule") and torch.ones(2).sum() == 2
try:
    import torch_aule  # noqa: F401
except ImportError as error:
    assert words and all(word in str(error) for word in words), error
else:
    raise SystemExit("no error")
