"""Question sets: questions with the records that answer them, and how well a space's contexts hold those."""
