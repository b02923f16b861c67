"""Reads conversations: exports of ChatGPT, Claude and Slack, sessions of coding agents, lines of messages.

Each message becomes a record with its thread, position and date. Of a conversation with several branches,
only the active one is read.
"""
