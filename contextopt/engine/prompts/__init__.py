"""From records and a budget to the text of a context and its ledger. Pure."""
