"""Days, persons and subjects that a question names, and the topic of a long conversation. Pure."""
