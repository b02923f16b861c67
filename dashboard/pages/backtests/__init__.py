"""Backtests of a team: the list with a form to start one, and the page of each."""
