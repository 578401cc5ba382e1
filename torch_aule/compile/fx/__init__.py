"""Changes of FX graphs, and lowerings of single operators."""
