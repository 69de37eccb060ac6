"""The folders of the headers of CUDA's runtime, from a toolkit or from wheels."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from planners.errors import MissingDependencyError, install_command

TOOLKITS = Path("/usr/local")
# The header that the decorator includes, and a header that it includes in turn. The wheel of the
# second may be another one.
_RUNTIME = Path("cuda_runtime_api.h")
_COMPANION = Path("crt/host_defines.h")
_INSTALL = {
    "12": "pip install nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12",
    "13": install_command("cuda"),
}


def cuda_headers(major: str) -> list[Path]:
    """Return the include folders for the version of CUDA that PyTorch was built with.

    Parameters
    ----------
    major
        Major version of CUDA, such as ``13``.

    Raises
    ------
    MissingDependencyError
        The headers are missing; the message has the command that installs them.
    """
    folders = list(dict.fromkeys(_candidates()))
    runtimes = {folder: _major_of(folder) for folder in folders if (folder / _RUNTIME).is_file()}
    companions = [folder for folder in folders if (folder / _COMPANION).is_file()]
    fitting = [folder for folder, found in runtimes.items() if found == major]
    whole = [folder for folder in fitting if folder in companions]
    if whole:
        return whole[:1]
    if fitting and companions:
        return [fitting[0], companions[0]]
    missing = _COMPANION if fitting else _RUNTIME
    others = sorted({found for found in runtimes.values() if found != major})
    instead = f" (found those of CUDA {', '.join(others)})" if others and not fitting else ""
    command = _INSTALL.get(major, f"set CUDA_HOME to a toolkit of CUDA {major}")
    raise MissingDependencyError(
        f"planned memory is compiled against PyTorch once, and the header {missing} of CUDA "
        f"{major} is not there{instead}; get it with: {command}"
    )


def _candidates() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "include"
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages.submodule_search_locations or []) if packages else []:
        yield from sorted(Path(folder).glob("*/include"))
    yield TOOLKITS / "cuda" / "include"
    yield from sorted(TOOLKITS.glob("cuda-*/include"), reverse=True)


def _major_of(folder: Path) -> str:
    text = (folder / _RUNTIME).read_text(errors="replace")
    found = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return str(int(found[1]) // 1000) if found else ""
