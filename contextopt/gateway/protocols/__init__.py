"""The protocols that prompts come in: what a request asks, where a context goes, and what an answer reports.

Everything here is pure: bytes in, values out.
"""
