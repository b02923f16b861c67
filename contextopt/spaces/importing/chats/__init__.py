"""Reads conversations: exports of ChatGPT, Claude and Slack, sessions of coding agents, lines of messages.

Each message becomes a record with its thread, position and date. If a conversation has several branches,
only the active one is read.
"""
