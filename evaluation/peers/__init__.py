"""Other packages that plan offsets, behind one interface."""
