"""Decides what coding agents are sent: phase contexts, retries and hand-offs."""
