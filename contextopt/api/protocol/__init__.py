"""What all endpoints share: keys, errors, pages of lists, repeated writes, bodies and answers."""
