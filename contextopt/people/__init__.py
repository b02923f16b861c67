"""Teams, members, keys and log-ins, and the log of what they changed."""
