"""Files and calls as no writer makes them, by the thousand, each from a seed."""
