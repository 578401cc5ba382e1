"""Which test covers a kernel whose name no test mentions: the op's name differs from the kernel's."""

KERNEL_TESTS: dict[str, str] = {}
