"""FlexAttention on device aule: its doors, its modifiers as GLSL, and kernels that are composed of them.

:mod:`torch_aule.compile.flex.doors` is imported when a program imports FlexAttention, the rest when Inductor is.
"""
