"""Which files of a repository a task needs, and how they fit a budget. Pure."""
