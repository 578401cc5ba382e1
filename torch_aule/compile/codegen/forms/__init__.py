"""Forms of a kernel, by what an invocation computes, and which of them fits."""
