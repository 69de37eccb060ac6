"""Of the programs on a GPU that write where they must not; read where PyTorch is not, too."""

STEPS = 10
WRONG_IN = 7
SIZE = 4 << 20
