"""The gateway: prompts of other programs pass through it to their models, watched or with context added."""
