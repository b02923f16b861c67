from tests.commands import run, write

__all__ = ["run", "write"]
