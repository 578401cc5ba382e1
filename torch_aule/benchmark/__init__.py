"""``python -m torch_aule.benchmark run|compare|report|plot``: what this device takes, beside CUDA and the CPU.

``run`` times cases and writes one JSON line for each, ``compare`` holds two such files against each other, ``report``
prints tables of one and ``plot`` draws attention. ``benchmarks/README.md`` says what the fields mean.
"""
