"""The first page: what was saved, in figures and charts."""
