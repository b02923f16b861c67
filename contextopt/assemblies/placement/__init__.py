"""Places the contexts of a conversation: the blocks that it holds, and what its model charges."""
