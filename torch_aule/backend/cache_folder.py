"""The folder of what is kept between processes (``TORCH_AULE_CACHE_DIR``)."""

from __future__ import annotations

from pathlib import Path

__all__ = ["make_private"]


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone; what is there keeps its permissions.

    `Path.mkdir` gives its mode to the last folder only.

    Parameters
    ----------
    folder : Path
        Such as the cache directory.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)  # another process may be as far
