"""The errors of this package.

ConnectError
├── UnusableCall       an option cannot be used; `option` names it
├── UnusableFile       a tool's file cannot be changed safely
│   └── LeadsOut       a link leads to a place where nothing may be written
├── AlreadyConnected   there is a connection already
├── NotConnected       there is no connection
└── ServerRefused      the server cannot be reached, or refused
"""


class ConnectError(Exception):
    """The base of all errors of this package. The message is for the person at the terminal."""


class UnusableCall(ConnectError):
    """An option cannot be used as given."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option, self.message = option, message


class UnusableFile(ConnectError):
    """A tool's file cannot be changed safely."""


class LeadsOut(UnusableFile):
    """A link leads to a place where nothing may be written."""


class AlreadyConnected(ConnectError):
    """There is a connection already."""


class NotConnected(ConnectError):
    """There is no connection."""


class ServerRefused(ConnectError):
    """The server cannot be reached, or refused. `status` is None without an answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
