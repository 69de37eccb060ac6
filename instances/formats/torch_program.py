"""Programs of ``torch.export.save``: archives with a graph as JSON, and weights beside it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from instances.formats.model_problem import ModelTensor, model_problem
from planners import Problem
from planners.errors import GaplessError, InstanceError, MissingDependencyError, errors_at
from planners.files.dimensions import Dimensions
from planners.files.file_limits import MAX_TEXT_BYTES
from planners.files.formats import NO_DIMENSIONS, Format
from planners.files.json_file import parse_json

# Limits the members of an archive; the zip module takes some 600 bytes for each. A guess.
MAX_MEMBERS = 1 << 16


def read_torch_program(path: Path, dimensions: Dimensions = NO_DIMENSIONS) -> Problem:
    """Read an exported PyTorch program as the problem of its intermediate tensors.

    The nodes are the operators, in the file's order on one stream. The first node makes the inputs,
    and the last node reads the results. Each storage is one tensor, with all its views and the
    results written into it in place; an operator that only makes a view is not a node. Sizes are
    exact, and a tensor is aligned to its elements. Nothing in the file is unpickled. `dimensions`
    maps PyTorch's symbols of dynamic dimensions, such as ``s77``, to sizes. ``persistent_bytes`` of
    the origin counts the weights.
    """
    with errors_at(path):
        program, file_bytes = _read_program(path)
        try:
            from instances.formats.exported_graph import ExportedGraph
        except ImportError as error:
            raise MissingDependencyError(
                f"{path}: exported programs need PyTorch ({error})", "torch"
            ) from None
        try:
            graph = ExportedGraph(program, dimensions, file_bytes)
            operators = graph.run()
        except GaplessError:
            raise
        except (
            AttributeError,
            IndexError,
            KeyError,
            OverflowError,
            StopIteration,
            TypeError,
            ValueError,
        ) as error:
            raise InstanceError(
                f"a program as torch.export.save writes it is needed, found "
                f"{type(error).__name__}: {error}"
            ) from None
        size, name = graph.storages.size, graph.storages.name
        return model_problem(
            path,
            TORCH_PROGRAM.name,
            operators,
            lambda storage: ModelTensor(name[storage], size[storage], graph.width[storage]),
            sum(size[storage] for storage in {*operators.kept} - graph.wrappers),
            dimensions,
        )


TORCH_PROGRAM = Format(
    "torch-export",
    (".pt2",),
    lambda path, _head: path.name.lower().endswith(".pt2"),
    read_torch_program,
    read_sized=read_torch_program,
)


def _read_program(path: Path) -> tuple[Any, int]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise InstanceError(
                    f"at most {MAX_MEMBERS} members are taken, found {len(members)}"
                )
            programs = [
                member
                for member in members
                if "/models/" in f"/{member.filename}" and member.filename.endswith(".json")
            ]
            if len(programs) != 1:
                raise InstanceError(
                    f"one program of torch.export.save is needed, found {len(programs)}; older "
                    f"files are to be saved anew"
                )
            if programs[0].compress_type != zipfile.ZIP_STORED:
                raise InstanceError("members as PyTorch stores them are needed, found packed ones")
            with archive.open(programs[0]) as file:
                text = file.read(MAX_TEXT_BYTES + 1)
    except InstanceError:
        raise
    except Exception as error:  # zipfile raises many kinds on damaged archives
        raise InstanceError(f"the file is not a whole archive: {error}") from None
    return parse_json(text), len(text)
