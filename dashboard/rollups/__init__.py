"""Assemblies added up by time, so that pages need not read the log."""
