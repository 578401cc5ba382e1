"""The shader compiler: variants, includes and reflection, for the build and for kernels compiled at run time.

The build uses this package before torch_aule has its extension: nothing here imports torch_aule but ``runtime`` and
``generated``.
"""


def __getattr__(name: str):
    if name == "compile_generated":
        from torch_aule._shader.generated import compile_generated

        return compile_generated
    if name in ("CompilerMissing", "ShaderError"):
        from torch_aule._shader import compiler

        return getattr(compiler, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
