"""The gateway: prompts of other programs pass through it to their models, audited or with context added."""
