"""Readers of foreign files, offered to Gapless through the entry points ``gapless.formats``."""
