"""What is measured: committed instances, and the cases of a page."""
