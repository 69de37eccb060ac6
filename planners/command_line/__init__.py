"""The frame of every command line: arguments, interrupts, endings, output."""
