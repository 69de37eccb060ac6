"""The referee: it shares no line with what it judges."""
