"""The imports and definitions in a repository, and how relevance spreads over the import graph."""
