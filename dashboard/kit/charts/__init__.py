"""Code shared by the charts."""
