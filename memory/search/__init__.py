"""One search over records and memories."""
