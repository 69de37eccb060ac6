"""Tests of Gapless; a folder `tests` of the user's comes before this one."""

from gapless_siblings import gives_way

gives_way(__name__)
