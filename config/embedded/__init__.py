"""The PostgreSQL that comes with the product, and the processes that `up` runs."""
