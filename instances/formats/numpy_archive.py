"""Archives of arrays (``.npz``) from anywhere, bounded before memory is taken for them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.errors import InstanceError


def load_arrays(path: Path, names: Collection[str], limit: int) -> dict[str, NDArray[Any]]:
    """Read arrays from an archive; nothing in it is unpickled.

    Parameters
    ----------
    path
        The file; untrusted.
    names
        Arrays to read, where they are there; others are passed over.
    limit
        Bytes that all arrays of the archive may hold together.

    Returns
    -------
    dict
        The arrays by name.

    Raises
    ------
    InstanceError
        The file cannot be read, is damaged or too large, or an array says another size than it
        has. The message leaves out the path.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # What the archive says it holds, before any of it is taken into memory.
            total = sum(member.file_size for member in archive.infolist())
            if total > limit:
                raise InstanceError(f"at most {limit} bytes of arrays are taken, found {total}")
            present = [name for name in names if f"{name}.npy" in archive.namelist()]
            for name in present:
                _require_whole(archive, name)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in present}
    except InstanceError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds on damaged archives
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InstanceError(f"the file is no whole archive of arrays: {reason:.200}") from None


def _require_whole(archive: zipfile.ZipFile, name: str) -> None:
    """Hold the size that an array says it has, and would be given, against what is there."""
    with archive.open(f"{name}.npy") as file:
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, kind = read_header(file)
        there = archive.getinfo(f"{name}.npy").file_size - file.tell()
    said = math.prod(shape) * kind.itemsize
    if said != there and not kind.hasobject:
        raise InstanceError(
            f"array {name}: the {said} bytes that it says are needed, found {there}"
        )
