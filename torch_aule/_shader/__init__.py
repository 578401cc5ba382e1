"""The shader compiler: variants, includes and reflection, for the build and for kernels compiled at run time."""
