"""``torch.compile`` on device aule: Inductor's graphs as GLSL kernels that are compiled in this process.

It is imported with torch_aule, and imports no Inductor: :mod:`torch_aule.compile.doors.hook` calls :func:`install` when
PyTorch has imported that.
"""

from torch_aule.compile.doors.install import install

__all__ = ["install"]
