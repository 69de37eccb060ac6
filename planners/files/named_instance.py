"""The file that an argument names: an existing one, or that of an instance with the name."""

from __future__ import annotations

import os
from pathlib import Path

from planners.entry_points import load_group

# Each takes a name, and returns the file of the instance or None.
ENTRY_POINT_GROUP = "gapless.instances"


def instance_file(path: Path) -> Path:
    """Return the file of an instance: the path, where there is a file; else who has the name.

    Raises
    ------
    InstanceError
        The name is that of an instance whose file is not here; the message says what makes it.
    """
    # A folder is no instance, whatever its name.
    if path.name != str(path) or (os.path.lexists(path) and not path.is_dir()):
        return path
    for _, find in load_group(ENTRY_POINT_GROUP, "catalogue of instances"):
        found: Path | None = find(str(path))
        if found is not None:
            return found
    return path
