"""Foreign files, read and written; readers are offered as entry points `gapless.formats`."""
