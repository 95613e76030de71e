"""From translated corpora to the tables of translation quality, on tiny tables."""

import polars as pl
import pytest

from psibench.errors import InputError
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.build_schemas import (
    TRANSLATION_AGREEMENT,
    TRANSLATION_GRADES,
    TRANSLATION_QUALITY,
)
from psibench.tables.schemas import CORPUS, DOCUMENTS
from psibench.translate.quality import DIMENSIONS, run_quality, run_quality_sample

SOURCE = Provenance(stage="build", stage_version=1)
LENGTHS = {"a": 100, "b": 300, "c": 600, "d": 5000}


def write_corpus(path, lengths, text):
    names = list(lengths)
    rows = {
        "_id": names,
        "text": [text.format(name) for name in names],
        "char_length": [9] * len(names),
        "word_count": [2] * len(names),
        "token_length": list(lengths.values()),
    }
    write_table(pl.DataFrame(rows), path, CORPUS, provenance=SOURCE)
    return path


def draw(tmp_path, kept=("a", "b", "c", "d"), **changes):
    domains = ["law", "game"]
    sources = [write_corpus(tmp_path / f"{d}-src", LENGTHS, f"{d} {{}}") for d in domains]
    # Lengths of the translation say nothing: those of the source make the strata.
    shorter = dict.fromkeys(reversed(kept), 1)
    corpora = [write_corpus(tmp_path / f"{d}-deu", shorter, f"{d} auf {{}}") for d in domains]
    values = {"per_stratum": 1, "seed": 3, "output": tmp_path / "sample.parquet"} | changes
    run_quality_sample(
        languages=["deu-Latn"], domains=domains, source_corpora=sources, corpora=corpora, **values
    )
    return read_table(values["output"], DOCUMENTS)


def test_a_sample_has_documents_of_every_domain_and_length_beside_their_translations(tmp_path):
    frame = draw(tmp_path, kept=("b", "c", "d"))  # cleaning removed a
    assert frame["doc_id"].to_list() == ["b", "c", "d"] * 2
    assert frame["length_bin"].to_list() == ["Q1", "Q2", "Q4"] * 2
    for row in frame.iter_rows(named=True):
        assert row["_id"] == f"deu-Latn/{row['domain']}/{row['doc_id']}"
        assert row["origin"] == row["domain"]
        assert row["text"] == f"{row['domain']} {row['doc_id']}"
        assert row["translation"] == f"{row['domain']} auf {row['doc_id']}"


HUMAN = "language,domain,doc_id,fluency,accuracy,completeness,style\n"


def assess(tmp_path, human=()):
    """Two languages, two documents each; German grades 4 and 5, no usable reply on French b."""
    paths = []
    for language, given in (("deu-Latn", [4, 5]), ("fra-Latn", [3, None])):
        rows = [(f"law/{d}", "law", d, "Q1", *[g] * 4) for d, g in zip("ab", given, strict=True)]
        schema = dict.fromkeys(("_id", "domain", "doc_id", "length_bin"), pl.String)
        schema |= dict.fromkeys(DIMENSIONS, pl.Int32)
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        paths.append(tmp_path / f"{language}.parquet")
        write_table(frame, paths[-1], TRANSLATION_GRADES, provenance=SOURCE)
    files = []
    for place, text in enumerate(human):
        files.append(tmp_path / f"human{place}.csv")
        files[-1].write_text(HUMAN + text)
    names = ("quality", "agreement")
    outputs = {name: tmp_path / f"{name}.parquet" for name in names}
    run_quality(languages=["deu-Latn", "fra-Latn"], grades=paths, human=files, **outputs)
    specs = (TRANSLATION_QUALITY, TRANSLATION_AGREEMENT)
    return [read_table(outputs[n], spec) for n, spec in zip(names, specs, strict=True)]


def test_people_are_compared_and_a_document_outside_the_sample_is_counted(tmp_path, caplog):
    text = "deu-Latn,law,a,5,4,4,4\ndeu-Latn,law,gone,1,1,1,1\nfra-Latn,law,b,5,5,5,5\n"
    quality, agreement = assess(tmp_path, [text])
    whole = quality.filter(domain="all", length_bin="all", dimension="overall")
    assert whole.select("language", "n", "n_unjudged", "mean").rows() == [
        ("deu-Latn", 2, 0, 4.5),
        ("fra-Latn", 1, 1, 3.0),
        ("all", 3, 1, 4.0),
    ]
    row = agreement.filter(language="all", dimension="fluency").row(0, named=True)
    assert (row["n"], row["n_unmatched"], row["mae"]) == (1, 2, 1.0)
    assert "1 of 3 documents are not in the quality sample" in caplog.text
    assert "the first: deu-Latn, law, gone" in caplog.text
    inputs = read_provenance(tmp_path / "agreement.parquet")["inputs"]
    assert any(path.endswith("human0.csv") for path in inputs)


def test_a_file_about_no_document_of_the_sample_is_refused(tmp_path):
    said = (
        "human1.csv: none of its 1 documents is in the quality sample; "
        "the first: deu-Latn, sports, a"
    )
    with pytest.raises(InputError, match=said):
        assess(tmp_path, ["deu-Latn,law,a,5,4,4,4\n", "deu-Latn,sports,a,1,1,1,1\n"])
