"""The log of assemblies, and one assembly under the Inspector."""
