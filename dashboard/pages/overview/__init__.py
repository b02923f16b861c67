"""The first page: savings, in figures and charts."""
