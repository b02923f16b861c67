"""Tokens, sentences, words and marks of texts. Pure."""
