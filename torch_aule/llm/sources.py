"""A model's files, whether they are whole, and their bytes: all of it from headers, before loading."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch

from torch_aule.quantized import FORMATS
from torch_aule.quantized.gguf import read_header

__all__ = ["GGUF", "SAFETENSORS", "LoadError", "Source", "find", "read"]

SAFETENSORS, GGUF = "safetensors", "gguf"
INDEX = "model.safetensors.index.json"
ONE = "model.safetensors"
FLOATS = ("F64", "F32", "F16", "BF16")  # what a loader converts to the dtype that is wanted
WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model"]  # of a name that is not here yet
POINTER = b"version https://git-lfs"
NUMBERS_OF_GGUF = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}


class LoadError(RuntimeError):
    """A model cannot be loaded; the message is one sentence with the reason and, where there is one, the way out."""


@dataclass(frozen=True)
class Source:
    """A model's files.

    Parameters
    ----------
    name : str
        As the user wrote it.
    folder : pathlib.Path
        Where the files are.
    gguf : pathlib.Path or None
        The file, if it is one of GGUF.
    tensors : tuple of (int, int, str)
        Values, bytes and type of each tensor: bytes in the file, or of blocks those on the device.
    keeps_types : bool
        Its tensors are quantized, and stay as they are.
    metadata : dict
        Of a GGUF file.
    """

    name: str
    folder: Path
    gguf: Path | None
    tensors: tuple[tuple[int, int, str], ...]
    keeps_types: bool
    metadata: dict

    @property
    def elements(self) -> int:
        """Values of all tensors."""
        return sum(values for values, *_ in self.tensors)

    @property
    def type(self) -> str:
        """The type that most bytes are of."""
        sizes: Counter[str] = Counter()
        for _, size, kind in self.tensors:
            sizes[kind] += size
        return sizes.most_common(1)[0][0] if sizes else "-"

    def bytes_in(self, dtype: torch.dtype) -> int:
        """The bytes of the tensors on the device.

        Parameters
        ----------
        dtype : torch.dtype
            Of those that are no blocks of a quantized format.

        Returns
        -------
        int
            Bytes.
        """
        width = torch.empty((), dtype=dtype, device="cpu").element_size()
        return sum(
            values * width if kind in FLOATS and not self.keeps_types else size for values, size, kind in self.tensors
        )


def find(path: str | PathLike, kind: str | None = None) -> tuple[Path, Path | None]:
    """The folder of a model, and its GGUF file if it is one.

    Parameters
    ----------
    path : str or os.PathLike
        A folder, a GGUF file, or a name as Hugging Face has them.
    kind : str, optional
        :data:`SAFETENSORS` or :data:`GGUF`: only this one.

    Returns
    -------
    (pathlib.Path, pathlib.Path or None)
        The folder and the file.

    Raises
    ------
    LoadError
        If nothing is there, or several files are.
    """
    place = Path(path).expanduser()
    if place.is_file():
        if kind == SAFETENSORS or place.suffix == ".safetensors":
            raise LoadError(f"{path}: expected the folder with config.json and the safetensors files, but got a file")
        return place.parent, place
    if place.is_dir():
        return _in_folder(place, kind)
    name = str(path)
    is_name = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) and not name.startswith(".")
    if kind != GGUF and is_name and place.suffix not in (".gguf", ".safetensors", ".json", ".bin"):
        return _of_hugging_face(name), None
    raise LoadError(f"{path}: there is no such file or folder")


def _in_folder(folder: Path, kind: str | None) -> tuple[Path, Path | None]:
    files = [] if kind == SAFETENSORS else sorted(folder.glob("*.gguf"))
    if kind != GGUF and (folder / "config.json").is_file() and (not files or _has_safetensors(folder)):
        return folder, None
    if len(files) == 1:
        return folder, files[0]
    if files:
        names = ", ".join(file.name for file in files)
        raise LoadError(f"{folder}: the folder has {len(files)} GGUF files; name one of them: {names}")
    missing = "GGUF file" if kind == GGUF else "config.json" if kind else "config.json and without a GGUF file"
    raise LoadError(f"{folder}: a folder without {missing}")


def _has_safetensors(folder: Path) -> bool:
    return (folder / INDEX).is_file() or (folder / ONE).is_file()


def _of_hugging_face(name: str) -> Path:
    """The snapshot in the cache, which needs no network; or one that is fetched now."""
    import huggingface_hub

    known = huggingface_hub.try_to_load_from_cache(name, "config.json")
    if isinstance(known, str):
        folder = Path(known).parent
        try:
            if _safetensors_files(folder):
                return folder
        except LoadError:
            pass  # only the configuration has been fetched so far
    if "/" not in name:
        raise LoadError(f"{name}: there is no such file or folder, and no model of this name in Hugging Face's cache")
    try:
        folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=WANTED))
    except Exception as error:  # of the network, of rights, of a name that nobody has: each has a class of its own
        raise LoadError(
            f"{name}: there is no such file or folder, the model is not in Hugging Face's cache, and it cannot be "
            f"fetched ({type(error).__name__})"
        ) from error
    if not (folder / "config.json").is_file():
        raise LoadError(
            f"{name}: the model has no config.json on Hugging Face; if it has GGUF files, fetch one of them and name "
            "its path"
        )
    return folder


def _safetensors_files(folder: Path) -> list[Path]:
    index = folder / INDEX
    if not index.is_file():
        if (folder / ONE).is_file():
            return [folder / ONE]
        others = sorted(file.name for pattern in ("*.safetensors", "*.bin", "*.pth") for file in folder.glob(pattern))
        there = f", only {others[0]}" if others else ""
        raise LoadError(f"{folder}: the folder has config.json, but neither {ONE} nor {INDEX}{there}")
    try:
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LoadError(f"{index}: no index of safetensors files") from None
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise LoadError(f"{folder}: {len(missing)} of {len(files)} files of weights are missing; one is {missing[0]}")
    return [folder / name for name in files]


def _safetensors_tensors(file: Path) -> list[tuple[int, int, str]]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        head = opened.read(8)
        length = int.from_bytes(head, "little")
        if (head + opened.read(len(POINTER) - 8))[: len(POINTER)] == POINTER:
            raise LoadError(f"{file}: a pointer of Git LFS, not the file itself; `git lfs pull` fetches it")
        if len(head) < 8 or length > size - 8:
            raise LoadError(
                f"{file}: the file is cut off, or no safetensors file: its header wants {length} bytes, but the file "
                f"has {size}"
            )
        opened.seek(8)
        try:
            header = json.loads(opened.read(length))
            found = []
            for name, tensor in header.items():
                if name != "__metadata__":
                    first, last = tensor["data_offsets"]
                    values = 1
                    for extent in tensor["shape"]:
                        values *= extent
                    found.append((values, last - first, tensor["dtype"], last))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LoadError(f"{file}: no safetensors file: its header cannot be read") from None
    end = 8 + length + max((last for *_, last in found), default=0)
    if end > size:
        raise LoadError(f"{file}: the file is cut off: its tensors end at byte {end}, the file at byte {size}")
    return [(values, taken, kind) for values, taken, kind, _ in found]


def _gguf(name: str, file: Path) -> Source:
    try:
        header = read_header(file)
    except ValueError as error:  # which names the file
        raise LoadError(str(error)) from None
    except OSError as error:
        raise LoadError(f"{file}: {error.strerror}") from None
    parts = header.metadata.get("split.count", 1)
    if parts > 1:
        raise LoadError(f"{file}: one of {parts} parts of a GGUF file; they must be merged into one file first")
    tensors = []
    for tensor in header.tensors.values():
        values = 1
        for extent in tensor.sizes:
            values *= extent
        if tensor.format is None:  # numbers, or blocks that become numbers
            kind = NUMBERS_OF_GGUF.get(tensor.type, "F32")
            tensors.append((values, tensor.bytes or 2 * values, kind))
        else:
            rows = values // tensor.sizes[-1] if values else 0
            tensors.append(
                (values, rows * FORMATS[tensor.format].packed_row_bytes(tensor.sizes[-1]), tensor.format.upper())
            )
    return Source(name, file.parent, file, tuple(tensors), False, header.metadata)


def read(path: str | PathLike, kind: str | None = None) -> Source:
    """Find a model, and read the headers of its files.

    Parameters
    ----------
    path : str or os.PathLike
        As :func:`find` takes it.
    kind : str, optional
        :data:`SAFETENSORS` or :data:`GGUF`: only this one.

    Returns
    -------
    Source
        Its files, all of which are whole.

    Raises
    ------
    LoadError
        If nothing is there, or a file is cut off.
    """
    folder, file = find(path, kind)
    if file is not None:
        return _gguf(str(path), file)
    try:
        configuration = json.loads((folder / "config.json").read_text())
        is_quantized = "quantization_config" in configuration
    except (OSError, ValueError, TypeError):
        raise LoadError(f"{folder / 'config.json'}: the file is no JSON") from None
    tensors = [tensor for part in _safetensors_files(folder) for tensor in _safetensors_tensors(part)]
    return Source(str(path), folder, None, tuple(tensors), is_quantized, configuration)
