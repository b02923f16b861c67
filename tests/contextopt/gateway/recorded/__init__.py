"""Requests of real clients, in our own words, and their tests."""
