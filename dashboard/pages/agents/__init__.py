"""Tasks, phases, retries, hand-offs and repositories of coding agents."""
