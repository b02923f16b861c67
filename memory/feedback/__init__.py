"""Votes on answers, and the ratings of strategies that follow from them."""
