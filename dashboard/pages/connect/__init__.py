"""The page Connect: a key, a snippet for each way to call, and a light for the first request."""
