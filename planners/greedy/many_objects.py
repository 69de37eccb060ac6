"""Many Objects: the buffer is split into objects, each as large as the tensor that opened it."""

from __future__ import annotations

from planners.greedy.family import register_family
from planners.greedy.place import place_in_objects

register_family(
    "many-objects",
    place_in_objects,
    places_into="objects",
    source="Lamprou et al. 2023, algorithm 7",
)
