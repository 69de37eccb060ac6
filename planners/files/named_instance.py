"""The file that an argument names: an existing file, or the file of an instance by its name."""

from __future__ import annotations

import os
from pathlib import Path

from planners.entry_points import foreign, load_group

# Each entry point takes a name, and returns the file of the instance or None.
ENTRY_POINT_GROUP = "gapless.instances"


def instance_file(path: Path) -> Path:
    """Return the path if it exists, else the file of the instance with this name, else the path."""
    # A folder is not an instance, so a folder of the same name does not hide the instance.
    if path.name != str(path) or (os.path.lexists(path) and not path.is_dir()):
        return path
    for _, find in load_group(ENTRY_POINT_GROUP, "catalogue of instances"):
        with foreign(f"instance {path}"):
            found = find(str(path))
            if found is not None:
                return Path(found)
    return path
