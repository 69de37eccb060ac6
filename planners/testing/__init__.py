"""Tests of the contract of all planners: ``python -m planners.testing --planner NAME``.

``--plugin FILE`` loads a planner of yours, as in ``python -m planners.compare``; without
``--planner`` all registered planners are tested. All other options are pytest's.
"""
