"""``python -m torch_aule.benchmark run|compare|report|plot|roof``: what this device takes, beside CUDA and the CPU.

``run`` times cases and writes one JSON line for each, ``compare`` holds two such files against each other, ``report``
prints tables of one, ``plot`` draws attention and ``roof`` measures what the device can reach. ``benchmarks/README.md``
says what the fields mean.
"""
