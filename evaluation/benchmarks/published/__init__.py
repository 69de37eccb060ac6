"""What papers and others printed, for tables beside ours."""
