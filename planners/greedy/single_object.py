"""Single Object: one buffer, with every order and every fit."""

from __future__ import annotations

from planners.greedy.family import register_family
from planners.greedy.place import place

register_family(
    "greedy",
    place,
    places_into="one buffer",
    source="Lamprou et al. 2023, algorithm 6",
)
