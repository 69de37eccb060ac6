"""The recorder of a PyTorch step: its graph, or its requests for memory, of one rank or several."""
