"""Other packages that plan offsets, behind an interface of ours."""
