"""The context for one step of an agent: everything it needs, in one text."""
