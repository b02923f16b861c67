"""Teams, members, keys and log-ins, and the audit log of changes to them."""
