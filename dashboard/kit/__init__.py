"""Code shared by the pages."""
