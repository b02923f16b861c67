"""The pages, a folder for each entry of the navigation."""
