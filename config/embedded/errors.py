"""Why the product cannot be set up or started. Every message is written for the person at the terminal.

SetupError
├── LockError         a lock file cannot be written, or somebody else keeps it
├── PostgresError     the embedded server cannot be used
├── PortInUseError    another program listens where the web server should
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
