"""`python -m contextopt_connect`."""

from contextopt_connect.command import main

main()
