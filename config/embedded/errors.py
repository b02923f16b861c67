"""Errors of setup and start. Every message is written for the person at the terminal.

SetupError
├── LockError         a lock file cannot be written, or another process keeps it
├── PostgresError     the embedded server cannot be used
├── PortInUseError    another program listens on the web server's port
└── AlreadyUpError    this checkout is being served already
"""


class SetupError(Exception):
    """The product cannot be started; the message says why and what to do."""


class LockError(SetupError):
    pass


class PostgresError(SetupError):
    pass


class PortInUseError(SetupError):
    pass


class AlreadyUpError(SetupError):
    pass
