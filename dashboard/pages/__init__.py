"""The pages, one folder for each entry of the navigation."""
