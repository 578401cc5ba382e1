"""What ``torch_aule.doctor`` is made of: checks of kernels, and what bounds a model."""
