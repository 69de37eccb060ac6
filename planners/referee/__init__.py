"""The referee, which shares no code with the planners that it judges."""
