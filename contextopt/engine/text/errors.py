"""The exceptions of the engine."""

from contextopt.engine.wording import plural


class EngineError(Exception):
    """Base of every exception that the engine raises on purpose.

    ::

        EngineError
        ├── InvalidValue        a field is outside its limits
        │   └── UnknownEncoding no tokenizer of that name is available
        └── BudgetExceeded      system, history and response alone exceed the total
    """


class InvalidValue(EngineError):
    """A field is outside its limits. Names the field and the limit."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class UnknownEncoding(InvalidValue):
    """The tokenizer's name is unknown, or its data is not available on this machine."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__("encoding", message)
        self.name = name


class BudgetExceeded(EngineError):
    """Even an empty context leaves the response less than its reservation.

    `missing` is the number of tokens short.
    """

    def __init__(self, missing: int, reserved: int) -> None:
        super().__init__(
            f"The response must keep {reserved:,} tokens, and even an empty context leaves it {missing:,} "
            f"short: shorten the system or history text by {plural(missing, 'token')}, or raise total_tokens."
        )
        self.missing = missing
        self.reserved = reserved
