"""The base of measurements: pinned cores, resident memory, properties of the machine."""
