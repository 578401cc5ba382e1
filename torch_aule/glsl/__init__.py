"""The shader compiler: variants, includes and reflection, for the build and for kernels compiled at run time.

The build runs this package before the extension exists: it imports neither PyTorch nor another part of torch_aule.
"""
