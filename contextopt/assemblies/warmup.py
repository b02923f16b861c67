"""Loads what contexts need before a process takes requests, so that the first prompt does not wait for it."""

import structlog

from contextopt.assemblies.placement.modelcatalog import list_price
from contextopt.engine.text.encodings import CL100K, O200K
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.search.embedders.current import configured_embedder, get_embedder, is_remote
from contextopt.search.embedders.values import WORDLLAMA, EmbeddingUnavailable
from contextopt.search.hybrid import prepare_query

log = structlog.get_logger(__name__)


def load_shared() -> None:
    """Load what forked processes can share: nothing that has threads or connections."""
    for encoding in (CL100K, O200K):
        get_tokenizer(encoding).count("warm")
    list_price("gpt-4o-mini")
    if configured_embedder() == WORDLLAMA:
        get_embedder(WORDLLAMA)


def load_models() -> None:
    """Load all that a process needs which does not fork. It starts without a model that cannot be loaded."""
    load_shared()
    name = configured_embedder()
    if is_remote(name):
        return
    try:
        get_embedder(name).embed(["warm"])
    except EmbeddingUnavailable as error:
        log.warning("embedder_not_loaded", error=str(error))


def warm_up() -> None:
    """Load the rest of what contexts need, and connect to the database."""
    prepare_query("warm")
