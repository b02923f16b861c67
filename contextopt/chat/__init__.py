"""Conversations with a model. Each message goes out with its context and is answered once."""
