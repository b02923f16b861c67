"""Search by words and by meaning over every registered table."""
