import hashlib

import jobs
import numpy as np
import polars as pl
import pytest

from psibench.config.model_base import Windows
from psibench.config.models import Bm25Model, SentenceTransformerModel
from psibench.config.sections import Encoding
from psibench.config.sources import FilesSource
from psibench.errors import InputError
from psibench.generate import personas
from psibench.generate.personas import Personas, persona_candidates, read_personas, run_personas
from psibench.sources.batches import SourceDocuments
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.schemas import DOCUMENTS

MINILM = "embedded:all-MiniLM-L6-v2"
DENSE = SentenceTransformerModel(
    backend="sentence-transformers", checkpoint=MINILM, max_tokens=64, query_prompt="query: "
)
PEOPLE = [
    "A cook who reads about bread and cheese.",
    "A sailor who reads about wind and tides.",
    "A singer who reads about opera and choirs.",
]
TEXTS = {
    "d2": "The opera house hired a choir and a famous soprano.",
    "d0": "Tides and wind decide when ships leave the harbour.",
    "d1": "Cheese ripens in caves; bread is baked before dawn.",
}
SETTINGS = Encoding(device="cpu")
SOURCE = Provenance(stage="sample", stage_version=1, revisions={"dataset:x": "1"})


def documents(texts) -> pl.DataFrame:
    rows = [(doc_id, text, "test") for doc_id, text in texts.items()]
    return pl.DataFrame(rows, schema=["_id", "text", "origin"], orient="row")


def hashed(texts, role, *, dim=8) -> np.ndarray:
    """Return unit vectors by the hash of each text's first word, so that texts may tie."""
    seeds = [int.from_bytes(hashlib.sha256(t.split()[0].encode()).digest()[:4]) for t in texts]
    rows = np.array([np.random.default_rng(seed).standard_normal(dim) for seed in seeds])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("block_documents", "n"), [(1, 5), (7, 1), (7, 40), (1000, 5)])
def test_candidates_equal_a_full_matrix_search_with_stable_ties(block_documents, n, monkeypatch):
    monkeypatch.setattr(personas, "BLOCK_DOCUMENTS", block_documents)
    texts = {f"d{i}": f"t{i % 20} {i}" for i in range(50)}
    people = [f"p{i % 11} {i}" for i in range(40)]  # 11 directions: most cosines tie
    rows = persona_candidates(documents(texts), people, encode=hashed, n=n)
    asked, offered = hashed(list(texts.values()), "document"), hashed(people, "query")
    cosines = (asked[:, None].astype(np.float64) * offered[None]).sum(axis=2).astype(np.float32)
    for (doc_id, found), name, row in zip(rows.iter_rows(), texts, cosines, strict=True):
        assert doc_id == name
        order = sorted(range(40), key=lambda place: (-row[place], place))[:n]
        assert found == [people[place] for place in order]


def section(tmp_path, people=PEOPLE) -> Personas:
    path = tmp_path / "people.jsonl"
    frame = pl.DataFrame({"persona": people}, schema={"persona": pl.String})
    frame.write_ndjson(path)
    source = FilesSource(kind="files", paths=[str(path)], text_column="persona")
    return Personas(source=source, model="m", n_candidates=2)


def run(tmp_path, entry) -> pl.DataFrame:
    write_table(documents(TEXTS), tmp_path / "documents.parquet", DOCUMENTS, provenance=SOURCE)
    jobs.run(
        run_personas,
        {"documents": tmp_path / "documents.parquet"},
        {"candidates": tmp_path / "personas.parquet"},
        section=section(tmp_path).model_dump(mode="json"),
        entry=entry.model_dump(mode="json"),
        store=tmp_path / "store",
        **SETTINGS.model_dump(),
    )
    return jobs.rows(tmp_path / "personas.parquet", PERSONA_CANDIDATES)


def test_a_real_model_finds_the_persona_that_fits(tmp_path):
    rows = run(tmp_path, DENSE)
    assert rows["_id"].to_list() == ["d2", "d0", "d1"]
    first = [found[0].split()[1] for found in rows["personas"]]
    assert first == ["singer", "sailor", "cook"]
    assert {len(found) for found in rows["personas"]} == {2}


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (Bm25Model(backend="bm25s"), "is sparse"),
        (DENSE.model_copy(update={"scoring": "maxsim"}), "has scoring: maxsim"),
        (DENSE.model_copy(update={"windows": Windows(tokens=32, overlap=8)}), "has windows"),
    ],
)
def test_models_without_one_vector_per_text_are_refused(tmp_path, entry, found):
    with pytest.raises(InputError, match=f"personas.model: 'm' {found}"):
        run(tmp_path, entry)


def test_personas_are_read_once_each_and_on_one_line(tmp_path):
    people = ["A cook\n in  Lyon.", "A cook in Lyon.", " ", "A poet."]
    assert read_personas(section(tmp_path, people=people)) == ["A cook in Lyon.", "A poet."]


def test_personas_are_read_from_batches_with_different_columns(tmp_path, monkeypatch):
    batches = [pl.DataFrame({"text": ["A cook."]}), pl.DataFrame({"text": ["A poet."], "n": [1]})]
    read = SourceDocuments(iter(batches))
    monkeypatch.setattr("psibench.generate.personas.read_documents", lambda source: read)
    assert read_personas(section(tmp_path)) == ["A cook.", "A poet."]
