"""Runs steps within a limit of memory: some results are computed again rather than kept.

>>> loss_of = keep_within(lambda batch: model(**batch).loss, "3GiB")  # doctest: +SKIP
>>> for batch in data:  # doctest: +SKIP
...     loss_of(batch).backward()
...     optimizer.step()
"""
