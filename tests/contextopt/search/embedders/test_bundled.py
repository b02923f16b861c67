from pathlib import Path

import pytest

from contextopt.search.embedders import localmodels
from contextopt.search.embedders.localmodels import ENCODER_BATCH, WordLlamaEmbedder, batches_alike
from contextopt.search.embedders.values import EmbeddingUnavailable


@pytest.mark.parametrize("weights", [None, b"", b"not weights"])
def test_without_its_files_it_says_how_to_install_them(
    weights: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(localmodels, "MODEL_FOLDER", tmp_path)
    if weights is not None:
        (tmp_path / "weights").mkdir()
        (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(weights)
    with pytest.raises(EmbeddingUnavailable, match="wordllama-256 is not installed; run `make setup`"):
        WordLlamaEmbedder()


def test_texts_of_similar_length_are_encoded_together() -> None:
    assert list(batches_alike([40, 0, 80, 90, 370, 3, 0])) == [[5], [0, 2], [3], [4]]
    assert [len(batch) for batch in batches_alike([7] * (ENCODER_BATCH + 1))] == [ENCODER_BATCH, 1]
    assert list(batches_alike([0, 0])) == []
