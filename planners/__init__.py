"""Gapless plans tensor memory ahead of time and proves how far each plan is from optimal.

>>> from planners import Problem, place
>>> problem = Problem(size=[3, 2, 2], start=[0, 0, 2], end=[2, 4, 4])
>>> place(problem, "size", "first").peak
5
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gapless_siblings import gives_way, import_ours

if not gives_way(__name__) and find_spec("planners._core") is None:
    from planners.missing_core import refuse

    refuse(ImportError("No module named 'planners._core'"))

# Nothing else is imported yet: where one thread imports this package, and another one a module of
# it, Python lets neither have the module.
if TYPE_CHECKING:
    from planners.public import *  # noqa: F403
    from planners.version import __version__ as __version__
else:

    def __getattr__(name: str) -> Any:
        """Import what the package exports, which takes long, when the first of it is asked for."""
        if name == "__version__":
            return import_ours("planners.version").__version__
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'planners' has no attribute {name!r}")
        public = import_ours("planners.public")
        exported = ["__all__", *public.__all__]
        globals().update({each: getattr(public, each) for each in exported})
        if name not in exported:
            raise AttributeError(f"module 'planners' has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_ours("planners.public").__all__})
