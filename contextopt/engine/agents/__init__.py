"""Contexts, retries and logs of coding agents. Pure."""
