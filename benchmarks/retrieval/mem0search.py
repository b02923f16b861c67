"""Search with mem0, with texts stored unchanged. Runs in an environment that has `mem0ai`.

Reads {"texts", "questions", "vectors"} from standard input, the vectors by their text. Writes for each
question the positions of the texts, best first. It calls no model or host.
"""

import json
import os
import sys
import tempfile
from typing import Any

os.environ |= {"MEM0_TELEMETRY": "False", "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"}

# Stored under one name, as the turns of one conversation.
OWNER = "conversation"


class _Given:
    """Looks vectors up instead of computing them. mem0 may have trimmed the texts."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = {text.strip(): vector for text, vector in vectors.items()}

    def embed(self, text: str, _action: str | None = None, **_: Any) -> list[float]:
        return self._vectors[text.strip()]

    def embed_batch(self, texts: list[str], _action: str | None = None, **_: Any) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def main() -> None:
    request = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MEM0_DIR"] = folder
        json.dump(_answer(request, folder), sys.stdout)


def _answer(request: dict[str, Any], folder: str) -> list[list[int]]:
    from mem0 import Memory

    vectors = request["vectors"]
    store = {"path": f"{folder}/store", "embedding_model_dims": len(next(iter(vectors.values())))}
    memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": store}})
    memory.embedding_model = _Given(vectors)
    for place, text in enumerate(request["texts"]):
        message = [{"role": "user", "content": text}]
        memory.add(message, user_id=OWNER, infer=False, metadata={"place": place})
    return [_search(memory, question, len(request["texts"])) for question in request["questions"]]


def _search(memory: Any, question: str, limit: int) -> list[int]:
    found = memory.search(question, filters={"user_id": OWNER}, top_k=limit, threshold=0.0)
    return [hit["metadata"]["place"] for hit in found["results"]]


if __name__ == "__main__":
    main()
