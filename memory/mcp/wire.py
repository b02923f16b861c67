"""Messages that name a key twice, on both transports. The SDK would keep only the last value."""

from contextopt.errors import InvalidInput
from contextopt.faults import NAME_MAX
from contextopt.strictjson import DuplicateKey, check_keys


def find_repeated_key(message: bytes) -> InvalidInput | None:
    """Return an error that names the key, if one object of the message has it twice.

    The SDK explains texts that are not JSON.
    """
    try:
        check_keys(message)
    except DuplicateKey as error:
        return InvalidInput.of(error.key[:NAME_MAX], str(error))
    except (ValueError, RecursionError):
        return None
    return None
