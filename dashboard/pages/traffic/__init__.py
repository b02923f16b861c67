"""The page Traffic: prompts that pass the gateway."""
