"""Question sets, their questions, and evaluations."""
