"""The command `contextopt`: connects coding agents to a server, and runs their hooks.

Only the standard library is imported, so the command starts fast and installs nothing else.
"""
