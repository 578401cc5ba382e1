"""``torch.compile`` on device aule: Inductor's graphs as GLSL kernels that are compiled in this process.

Importing this package imports Inductor. :mod:`torch_aule.compile.doors.hook` does it when Inductor itself is imported.
"""

from torch_aule.compile.doors.install import install

__all__ = ["install"]
