"""What is measured: committed instances, variations of them, and the questions of a page."""
