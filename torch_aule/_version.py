"""The one place where the versions stand: this package's, and those of torch that it is compiled and tested with.

setup.py and pyproject.toml read them from here.
"""

__version__ = "0.1.0"
# The extension is C++ ABI against one minor version of torch; the sources compile against these.
TORCH_OLDEST = (2, 11)
TORCH_NEWER_THAN_TESTED = (2, 16)
