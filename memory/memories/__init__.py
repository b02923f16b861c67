"""What a team remembers: facts, decisions and error patterns."""
