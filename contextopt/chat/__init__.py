"""Conversations with a model, each message sent once with its context."""
