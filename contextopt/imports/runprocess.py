"""The process of one step of an import: `python -m contextopt.imports.runprocess ID`."""

import sys


def main() -> None:
    """Work on the import. A token for its git address comes by standard input."""
    import django

    django.setup()
    from contextopt.imports.runs import work_on

    work_on(int(sys.argv[1]), sys.stdin.read())


if __name__ == "__main__":
    main()
