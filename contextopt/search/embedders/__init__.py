"""Embedders turn texts into vectors. They share one protocol, and each is loaded on first use."""
