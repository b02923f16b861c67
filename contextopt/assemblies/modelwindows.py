"""Context windows of models, from the table in the package `genai-prices`."""

from functools import lru_cache
from typing import TYPE_CHECKING

from contextopt.engine.text.errors import InvalidValue
from contextopt.search.workclock import loading

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

# A router that names models with their maker, such as `google/gemini-2.5-pro`, and knows most windows.
ROUTER = "openrouter"


@lru_cache(256)
def model_window(model: str) -> int:
    """Return the tokens that fit into the model's window, response included.

    Raises:
        InvalidValue: the model is unknown, or its window is.
    """
    snapshot = load_models()
    maker, window = _look_up(snapshot, model, None)
    for name in (model, f"{maker}/{model}"):
        window = window or _look_up(snapshot, name, ROUTER)[1]
    if window is None:
        raise InvalidValue("model", f"the context window of {model!r} is not known; give context_tokens")
    return window


def load_models() -> "DataSnapshot":
    """Return the package's data on models."""
    with loading():
        # It takes half a second to load and 30 MB, and few requests need it.
        from genai_prices import data_snapshot
    # The package's own snapshot would remember every name that anyone asks for.
    return data_snapshot.DataSnapshot(data_snapshot.get_snapshot().providers, from_auto_update=False)


def _look_up(snapshot: "DataSnapshot", model: str, provider: str | None) -> tuple[str, int | None]:
    """Return the provider of the model and the model's window, as far as they are known."""
    try:
        found, info = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return "", None
    return found.id, info.context_window
