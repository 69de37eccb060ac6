"""``python -m evaluation.regress OLD NEW``: worse, better, invalid, slower, run by run."""
