"""Ways of working that succeeded, learned from ended tasks and offered as hints."""
