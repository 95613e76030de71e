"""The stage ``sample``: tables, parameters, and a balanced ledger."""

import json
from pathlib import Path

import jobs
import pytest

from psibench.config.sources import FilesSource, PythonDocsSource
from psibench.errors import InputError
from psibench.generate.sample import run_sample
from psibench.generate.sampling import Passages, Sample, is_current, sample_params
from psibench.tables import read_provenance
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.domains import OfDomain
from psibench.tables.schemas import ATTRITION, DOCUMENTS

TEXTS = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(6)]
RECORDS = [
    *({"_id": f"d{i}", "text": text} for i, text in enumerate(TEXTS)),
    {"_id": "again", "text": TEXTS[0].upper()},
]
TABLES = ("documents", "sampling", "dropped")
SAMPLE = Sample(edges=[0, 50])
SOURCE = FilesSource(kind="files", paths=["a.jsonl"])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return tmp_path


def run(*, source=SOURCE, passages=None, sample=SAMPLE, **more):
    paths = {name: Path(f"{name}.parquet") for name in TABLES}
    params = sample_params(source, passages, sample, length_tokenizer="words", **more)
    jobs.run(run_sample, {}, paths, domains={"law": json.loads(json.dumps(params))})
    specs = (DOCUMENTS, SAMPLING, ATTRITION)
    return [jobs.rows(paths[name], spec) for name, spec in zip(TABLES, specs, strict=True)]


def test_ids_of_left_out_documents_also_get_the_prefix():
    long = "\n\n".join(" ".join(f"p{i}y{j}" for j in range(20)) for i in range(3)) + "\n\nend"
    with Path("a.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "long", "text": long}) + "\n")
    documents, _, dropped = run(passages=Passages(min_words=40, max_words=45), id_prefix="law/")
    assert documents["_id"].str.starts_with("law/").all()
    for name in ("item_id", "doc_id"):
        assert dropped[name].str.count_matches("law/").to_list() == [1] * dropped.height
    assert set(dropped["reason"]) == {"exact_duplicate", "passage_too_short"}
    assert set(dropped.select("language", "domain").rows()) == {("eng-Latn", "law")}


def test_a_small_or_empty_sample_is_reported_with_its_domain(caplog):
    run(sample=Sample(unit="words", edges=[0, 50], n_documents=99))
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith("sample of eng-Latn, law: drew only ")
    with pytest.raises(InputError, match="sample of eng-Latn, law: no document drawn"):
        run(sample=Sample(unit="words", edges=[800, 900]))


@pytest.mark.parametrize("unit", ["words", "tokens"])
def test_a_sample_records_the_parameters_that_its_rule_is_given(unit):
    passages, sample = Passages(max_words=40), Sample(unit=unit, edges=[0, 50])
    run(passages=passages, sample=sample)
    params = sample_params(SOURCE, passages, sample, length_tokenizer="words")
    recorded = read_provenance("documents.parquet")["params"]
    assert recorded == params | {"length_tokenizer": "words", "domains": ["law"]}
    # Each Python version has another documentation.
    documentation = PythonDocsSource(kind="python_docs")
    python = sample_params(documentation, passages, sample, length_tokenizer="words").keys()
    assert python - params.keys() == {"python"}


def test_a_sample_is_current_until_source_settings_or_files_change():
    params = sample_params(SOURCE, None, SAMPLE, length_tokenizer="words")
    jobs.run(run_sample, {}, {name: f"{name}.parquet" for name in TABLES}, domains={"law": params})

    def current(source=SOURCE, passages=None, sample=SAMPLE, domain="law"):
        table = OfDomain("documents.parquet", domain)
        return is_current(table, source, passages, sample, length_tokenizer="words")

    assert current()
    assert not current(domain="art")
    assert not current(source=SOURCE.model_copy(update={"max_documents": 9}))
    assert not current(passages=Passages())
    assert not current(sample=Sample(edges=[0, 50], deduplicate="exact"))
    Path("a.jsonl").write_text(json.dumps(RECORDS[0]) + "\n")
    assert not current()
