"""SPIR-V on disk, by the hash of what it was made of. What is damaged counts as absent.

A file's time is that of its last use: the longest unused ones go when all are too many bytes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from torch_aule.backend.cache_folder import make_private

MAGIC = b"aulespv1"
LIMIT_BYTES = 256 << 20
TRIM_EVERY_BYTES = 16 << 20

_untrimmed: dict[Path, int] = {}  # bytes stored by this process since it last looked through a folder


def _file(folder: Path, key: str) -> Path:
    return folder / "spirv" / key[:2] / f"{key}.spv"


def load(folder: Path | None, key: str) -> bytes | None:
    """The SPIR-V kept under a key.

    Parameters
    ----------
    folder : Path or None
        The cache directory; None: nothing is kept.
    key : str
        Hexadecimal hash of the expanded source and the compiler.

    Returns
    -------
    bytes or None
        None where there is none, or one whose checksum is wrong.
    """
    if folder is None:
        return None
    path = _file(folder, key)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(MAGIC) + 32
    spirv = data[start:]
    if data[: len(MAGIC)] != MAGIC or not spirv or hashlib.sha256(spirv).digest() != data[len(MAGIC) : start]:
        return None
    try:
        os.utime(path)
    except OSError:  # of another user, or gone by now
        pass
    return spirv


def store(folder: Path | None, key: str, spirv: bytes) -> None:
    """Keep SPIR-V under a key; a folder that cannot be written keeps nothing.

    Parameters
    ----------
    folder : Path or None
        The cache directory; None: nothing is kept.
    key : str
        Hexadecimal hash of the expanded source and the compiler.
    spirv : bytes
        What the compiler made of it.
    """
    if folder is None:
        return
    path = _file(folder, key)
    try:
        make_private(path.parent)
        # Written beside and renamed: a reader sees the whole file or none.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=key)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(MAGIC + hashlib.sha256(spirv).digest() + spirv)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        _trim(folder, len(spirv))
    except OSError:
        return


def _trim(folder: Path, stored: int) -> None:
    """The oldest files go where all together are too many bytes."""
    since = _untrimmed.get(folder, TRIM_EVERY_BYTES) + stored
    _untrimmed[folder] = since if since < TRIM_EVERY_BYTES else 0
    if since < TRIM_EVERY_BYTES:
        return
    files = []
    for path in (folder / "spirv").glob("*/*"):
        try:
            stat = path.stat()
        except OSError:  # another process was faster
            continue
        files.append((stat.st_mtime, stat.st_size, path))
    kept = 0
    for _, size, path in sorted(files, reverse=True):
        kept += size
        if kept > LIMIT_BYTES:
            path.unlink(missing_ok=True)
