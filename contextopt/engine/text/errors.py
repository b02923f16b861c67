"""What the engine raises."""


class EngineError(Exception):
    """Base of everything the engine raises on purpose.

    ::

        EngineError
        ├── InvalidValue        a field is outside its limits
        │   └── UnknownEncoding no tokenizer of that name can be had here
        └── BudgetExceeded      system, history and response alone are over the total
    """


class InvalidValue(EngineError):
    """Name the field at fault and the limit that it broke."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class UnknownEncoding(InvalidValue):
    """No tokenizer of that name is known, or its data cannot be had on this machine."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__("encoding", message)
        self.name = name


class BudgetExceeded(EngineError):
    """Even an empty context leaves the response less than its reservation.

    `missing` says by how many tokens.
    """

    def __init__(self, missing: int, reserved: int) -> None:
        super().__init__(
            f"The response must keep {reserved} tokens and even an empty context leaves it {missing} short: "
            f"shorten the system or history text by {missing} tokens, or raise the total."
        )
        self.missing = missing
        self.reserved = reserved
