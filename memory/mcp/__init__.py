"""Tools for models, over the Model Context Protocol."""
