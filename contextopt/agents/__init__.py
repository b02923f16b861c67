"""What a coding agent is sent: its phases, its retries, and what its phases hand on."""
