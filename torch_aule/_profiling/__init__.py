"""What ``torch_aule.profiling`` is made of: numbers, traces, memory, advice, and their pages."""
