"""The frame of every page: its navigation, its events, its errors, and the next step for a newcomer."""
