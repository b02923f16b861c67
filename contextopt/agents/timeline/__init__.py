"""A task's events in order of time, and its account."""
