"""Pictures, offered to Gapless through the entry points ``gapless.plots``."""
