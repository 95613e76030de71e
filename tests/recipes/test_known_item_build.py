"""The known-item recipe from a config section to a build: cutting, and making nothing."""

from pathlib import Path

import pytest

from psibench.errors import InputError
from psibench.generate.benchmarks import parse_benchmark
from psibench.text.lengths import count_whitespace_tokens


def section(folder: Path, **changes):
    source = {"kind": "files", "paths": [str(folder)]}
    return parse_benchmark({"recipe": "known_item", "source": source} | changes)


def test_a_corpus_that_gives_no_query_is_refused_with_the_reasons(tmp_path):
    (tmp_path / "one.txt").write_text("far too short to ask about")
    with pytest.raises(InputError) as raised:
        section(tmp_path).build(count_whitespace_tokens)
    message = str(raised.value)
    assert "no known-item query from 1 documents" in message
    assert "text_too_short 3" in message  # one planned query per third
    assert "Keys that decide: passages, n_terms and queries_per_third" in message


def test_a_local_folder_laid_out_as_a_dataset_is_tracked_file_by_file(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    source = {"kind": "hub", "name": str(tmp_path)}
    assert section(tmp_path, source=source).files() == [str(tmp_path / "train.jsonl")]
    assert section(tmp_path, source=source | {"name": "owner/name"}).files() == []
