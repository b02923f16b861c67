"""Imports that people start from pages: an upload or a git address, in processes of their own."""
