"""From a module to the graph of its step, by PyTorch's ``make_fx``."""
