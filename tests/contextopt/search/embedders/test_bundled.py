from pathlib import Path

import pytest

from contextopt.search.embedders import localmodels
from contextopt.search.embedders.localmodels import WordLlamaEmbedder
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
