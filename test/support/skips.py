"""The one list of exceptions of test_opinfo.py, each with its cause.

An entry here is tested too: it must still be refused in the way that is stated, so that an operator that became native
is taken off the list. ``python test/support/opinfo_report.py`` prints what is missing, most wanted first.
"""

from __future__ import annotations

# Operators of the database that strict mode refuses: cause -> entries.
REFUSED: dict[str, list[str]] = {
    "sparse layouts": [
        "sparse.mm.reduce",
    ],
}

# Entries whose kernels decline some of the database's arguments with a clear error: cause -> entries.
UNSUPPORTED: dict[str, list[str]] = {}

# Entries that cannot be run through the generic comparison: cause -> entries.
NOT_COMPARABLE: dict[str, list[str]] = {
    "the sample draws its own dropout, which no two devices share": ["nn.functional.multi_head_attention_forward"],
    "PyTorch wants the sections on the CPU, and the harness moves every tensor": ["tensor_split"],
    "an operator of the CPU, by its name, whose masks no other device takes": [
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
    ],
}

# Entries whose gradient needs an operator that is refused: cause -> entries.
BACKWARD_REFUSED: dict[str, list[str]] = {}


def _by_entry(table: dict[str, list[str]]) -> dict[str, str]:
    return {entry: cause for cause, entries in table.items() for entry in entries}


refused = _by_entry(REFUSED)
unsupported = _by_entry(UNSUPPORTED)
not_comparable = _by_entry(NOT_COMPARABLE)
backward_refused = _by_entry(BACKWARD_REFUSED)
