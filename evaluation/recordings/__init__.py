"""Training loops that are traced without a GPU, and the files that studies have of them."""
