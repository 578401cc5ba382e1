// A uniform draw in (0, 1) with 24 bits, whose logarithm is finite.
float positive(uint bits) { return (float(bits >> 8) + 0.5) * (1.0 / 16777216.0); }
