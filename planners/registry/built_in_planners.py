"""Importing this module registers the planners of this package, and lists them first."""

from gapless_siblings import import_ours
from planners.registry import BUILT_IN_MODULES, PLANNERS

for _module in BUILT_IN_MODULES:
    import_ours(_module)
# Whichever was imported first, the list has the order of the modules.
_order = {module: place for place, module in enumerate(BUILT_IN_MODULES)}
_known = sorted(PLANNERS.values(), key=lambda info: _order.get(info.module, len(_order)))
PLANNERS.clear()
PLANNERS.update({info.name: info for info in _known})
