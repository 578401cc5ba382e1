"""GLSL text of a fused kernel from its statements."""
