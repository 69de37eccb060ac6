"""Instance and plan files, the registry of formats, and the only writer of files."""
