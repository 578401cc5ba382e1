"""``python -m torch_aule.benchmark``: speed and accuracy of this device beside the CPU, in the same run.

One JSON line a case, medians; see ``benchmarks/README.md`` for what the fields mean and how two runs are compared.
"""
