"""The log of assemblies, and the Inspector of one assembly."""
