"""torch_aule cannot be imported. The arguments: why, and every word that the error must have.

extension   the extension does not load; `import torch`, which finds the entry point, works all the same
version     a torch that is newer than what the extensions here were built for
older       one that is older
unbuilt     there is no extension at all
name        another backend has taken PyTorch's place for one
"""

import importlib.machinery
import sys

import entry_point  # noqa: F401


class Broken(importlib.machinery.ExtensionFileLoader):
    """A loader for which the extension has a symbol too many."""

    def create_module(self, spec):
        raise ImportError("undefined symbol: _ZN3c10")


why, *words = sys.argv[1:]
if why == "extension":
    importlib.machinery.ExtensionFileLoader = Broken

import torch

if why == "version":
    torch.__version__ = "2.99.1"
elif why == "older":
    torch.__version__ = "2.9.1"
elif why == "unbuilt":
    importlib.machinery.EXTENSION_SUFFIXES[:] = [".of-another-python.so"]
elif why == "name":
    torch.utils.rename_privateuse1_backend("other")
assert not hasattr(torch, "aule") and torch.ones(2).sum() == 2
try:
    import torch_aule  # noqa: F401
except ImportError as error:
    assert words and all(word in str(error) for word in words), error
else:
    raise SystemExit("no error")
