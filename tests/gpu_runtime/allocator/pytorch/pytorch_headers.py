"""Compiles the decorator against versions of PyTorch that are not installed.

``python -m tests.gpu_runtime.allocator.pytorch.pytorch_headers VERSION ...`` reads the headers, a
few MiB, out of wheels of half a GiB, which stay where pip finds them. It also names the virtual
members of PyTorch's allocator that the decorator does not pass on: a new member has a body, so it
compiles. With ``--into FOLDER`` in front, the headers stay in this folder, from which a wheel of
ours is built. With ``--newest`` alone, the newest release and candidate are compared.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from tests.repository import ROOT

SOURCE = ROOT / "gpu_runtime" / "allocator" / "pytorch" / "decorator.cpp"
HEADERS = ("torch/include/c10/", "torch/include/torch/headeronly/")
# CUDA's headers, by the package that has them. PyTorch's headers are the same for every CUDA.
CUDA_HEADERS = {"nvidia-cuda-runtime": "13", "nvidia-cuda-crt": "13"}
# The classes that the decorator derives from, whose members it passes on.
ALLOCATORS = {
    "c10/cuda/CUDACachingAllocator.h": "CUDAAllocator",
    "c10/core/CachingDeviceAllocator.h": "DeviceAllocator",
}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
VIRTUAL = re.compile(r"\bvirtual\s[^;{}~]*?(\w+)\s*\(")
OVERRIDE = re.compile(r"(\w+)\([^;{}]*?\)\s*(?:const\s*)?(?:noexcept\s*)?override\b")
# What builds without CUDA lack.
OWN_HEADERS = Path(__file__).parent / "headers"
# The oldest that are promised, and one between them and what is new.
COMPILERS = ("g++-12", "clang++-14", "clang++-16")
_PARTIAL_CONTENT = 206


class RemoteFile(io.RawIOBase):
    """A file on a server, read in parts."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._at = 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            self._bytes = int(answer.headers["Content-Length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + (0, self._at, self._bytes)[whence]
        return self._at

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        last = min(self._at + len(buffer), self._bytes) - 1
        if last < self._at:
            return 0
        headers = {"Range": f"bytes={self._at}-{last}"}
        with urllib.request.urlopen(urllib.request.Request(self._url, headers=headers)) as answer:
            if answer.status != _PARTIAL_CONTENT:
                raise OSError(f"{self._url}: the server sends whole files only")
            found = answer.read()
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def wheel_of(version: str, package: str = "torch") -> str:
    """Return the address of a package's wheel, from the index that pip uses."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"),
            *("--ignore-installed", "--only-binary", ":all:", "--report", "-"),
            f"{package}=={version}.*",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"{package} {version}: pip finds no wheel here: {ended.stderr.strip()}")
    return str(json.loads(ended.stdout)["install"][0]["download_info"]["url"])


def fetch_headers(version: str, folder: Path) -> Path:
    """Put the headers of a version into a folder, and return what is to be included."""
    _fetch(wheel_of(version), HEADERS, folder)
    return folder / "torch" / "include"


def keep_headers(version: str, folder: Path) -> None:
    """Put the headers of a release, with CUDA's, into a folder with the name of the release."""
    wheel = wheel_of(version)
    release = unquote(urlsplit(wheel).path).rsplit("/", 1)[-1].split("-")[1].partition("+")[0]
    _fetch(wheel, HEADERS, folder / release)
    for package, major in CUDA_HEADERS.items():
        _fetch(wheel_of(major, package), (f"nvidia/cu{major}/include/",), folder / release)
    print(f"PyTorch {release}: its headers are in {folder / release}")


def _fetch(wheel: str, prefixes: tuple[str, ...], folder: Path) -> None:
    address = urlsplit(wheel)
    raw = (
        io.FileIO(unquote(address.path))
        if address.scheme == "file"
        else RemoteFile(address.geturl())
    )
    with io.BufferedReader(raw, buffer_size=1 << 20) as file, zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.startswith(prefixes):
                archive.extract(name, folder)


def check_syntax(include: Path, compiler: str) -> None:
    """Compile the decorator as far as its types; raises CalledProcessError."""
    # Imported here because a wheel is built before the package can be imported.
    from gpu_runtime.allocator.pytorch.cuda_headers import cuda_headers

    folders = [include, OWN_HEADERS, *cuda_headers("13")]
    options = (option for folder in folders for option in ("-isystem", str(folder)))
    subprocess.run(
        [
            compiler,
            "-std=c++20",
            "-fsyntax-only",
            "-Wall",
            "-Wextra",
            "-Werror",
            *options,
            str(SOURCE),
        ],
        check=True,
    )


def virtual_members(include: Path) -> set[str]:
    """Return the virtual members of PyTorch's allocator that a version declares."""
    members = set()
    for file, name in ALLOCATORS.items():
        text = COMMENT.sub("", (include / file).read_text(encoding="utf-8"))
        begin = re.search(rf"\b(?:class|struct)\s[^;{{}}]*\b{name}\b[^;{{}}]*{{", text)
        if begin is None:
            raise ValueError(f"{include / file}: a class {name} is needed, found none")
        end = begin.end()
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        members |= set(VIRTUAL.findall(text[begin.end() : end]))
    return members


def overridden_members() -> set[str]:
    """Return the members that the decorator overrides, for whatever version."""
    files = [SOURCE, *SOURCE.parent.glob("*.h")]
    text = "\n".join(COMMENT.sub("", file.read_text(encoding="utf-8")) for file in files)
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    return set(OVERRIDE.findall("\n".join(lines).replace("{0, 0}", "")))


def members_not_passed_on(include: Path) -> list[str]:
    """Return the members that a version has and the decorator does not override."""
    return sorted(virtual_members(include) - overridden_members())


def newest_versions() -> list[str]:
    """Return the newest release of PyTorch on the index that pip uses, and a newer candidate."""
    said = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", "torch", "--pre"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    versions = said.partition("Available versions:")[2].split("\n")[0].replace(" ", "").split(",")
    plain = [version for version in versions if "+" not in version]
    release = next(version for version in plain if re.fullmatch(r"[\d.]+", version))
    return [release] if plain[0] == release else [release, plain[0]]


def main() -> None:
    if sys.argv[1:2] == ["--into"]:
        for version in sys.argv[3:]:
            keep_headers(version, Path(sys.argv[2]))
        return
    is_newest = sys.argv[1:] == ["--newest"]
    for version in newest_versions() if is_newest else sys.argv[1:]:
        with TemporaryDirectory() as folder:
            include = fetch_headers(version, Path(folder))
            if left := members_not_passed_on(include):
                sys.exit(f"PyTorch {version}: passing_on.h does not pass on {', '.join(left)}")
            for compiler in COMPILERS:
                check_syntax(include, compiler)
        print(f"PyTorch {version}: all members are passed on; compiles with {', '.join(COMPILERS)}")


if __name__ == "__main__":
    main()
