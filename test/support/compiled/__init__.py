"""Programs for torch.compile, by topic. `row.py` says what a row is; `test/support/inductor_programs.py` runs them."""

import importlib

TOPICS = ("pointwise", "integers", "casts", "reductions", "views", "indexing", "mutation", "networks", "sizes")


def all_rows():
    """Every row of every topic."""
    return [row for topic in TOPICS for row in importlib.import_module(f"compiled.{topic}").table.rows]
