"""Where a context goes in a prompt, and what the prompt costs after the provider's cache."""
