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


GIVEN = {
    "deu-Latn": {"a": [5, 5, 5, 5], "b": [3, 4, 5, 4], "c": [None] * 4},  # c: no usable reply
    "fra-Latn": {"a": [2, 2, 2, 2]},
}


def assess(tmp_path, *human):
    """What the model graded, and rows of files with people's grades of domain law."""
    paths = []
    for language, given in GIVEN.items():
        rows = [(f"law/{d}", "law", d, "Q1", *four) for d, four in given.items()]
        schema = dict.fromkeys(("_id", "domain", "doc_id", "length_bin"), pl.String)
        schema |= dict.fromkeys(DIMENSIONS, pl.Int32)
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        paths.append(tmp_path / f"{language}.parquet")
        write_table(frame, paths[-1], TRANSLATION_GRADES, provenance=SOURCE)
    files = []
    for place, text in enumerate(human):
        files.append(tmp_path / f"human{place}.csv")
        files[-1].write_text(HUMAN + text)
    specs = {"quality": TRANSLATION_QUALITY, "agreement": TRANSLATION_AGREEMENT}
    outputs = {name: tmp_path / f"{name}.parquet" for name in specs}
    run_quality(languages=list(GIVEN), grades=paths, human=files, **outputs)
    return [read_table(outputs[name], spec) for name, spec in specs.items()]


def test_people_are_compared_and_a_document_outside_the_sample_is_counted(tmp_path, caplog):
    german = ("a,4,5,3,5", "b,3,2,5,4", "c,1,1,1,1", "gone,1,1,1,1")
    rows = [f"deu-Latn,law,{row}\n" for row in german] + ["fra-Latn,law,a,2,2,2,5\n"]
    quality, agreement = assess(tmp_path, "".join(rows))
    whole = quality.filter(domain="all", length_bin="all", dimension="overall")
    assert whole.select("language", "n", "n_unjudged", "mean").rows() == [
        ("deu-Latn", 2, 1, 4.5),
        ("fra-Latn", 1, 0, 2.0),
        ("all", 3, 1, 11 / 3),
    ]

    def row_of(language, dimension):
        return agreement.filter(language=language, dimension=dimension).row(0)[2:]

    # fluency, German: |4 - 5|, |3 - 3|
    assert row_of("deu-Latn", "fluency") == (2, 2, 1.0, 0.5, 3.5, 4.0)
    # accuracy, German: |5 - 5|, |2 - 4|
    assert row_of("deu-Latn", "accuracy") == (2, 2, 0.5, 1.0, 3.5, 4.5)
    # overall, German: |4.25 - 5|, |3.5 - 4|
    assert row_of("deu-Latn", "overall") == (2, 2, 1.0, 0.625, 3.875, 4.5)
    # the four together, all languages: 12 pairs; differences 1 0 2 0, 0 2 0 0, 0 0 0 3
    assert row_of("all", "all")[:4] == (12, 8, 9 / 12, 8 / 12)
    assert list(dict.fromkeys(agreement["language"])) == ["all", "deu-Latn", "fra-Latn"]
    assert "1 of 5 documents are not in the quality sample" in caplog.text
    assert "the first: deu-Latn, law, gone" in caplog.text
    inputs = read_provenance(tmp_path / "agreement.parquet")["inputs"]
    assert any(path.endswith("human0.csv") for path in inputs)


def test_a_file_about_no_document_of_the_sample_is_refused(tmp_path):
    said = (
        "human1.csv: none of its 1 documents is in the quality sample; "
        "the first: deu-Latn, sports, a"
    )
    with pytest.raises(InputError, match=said):
        assess(tmp_path, "deu-Latn,law,a,5,4,4,4\n", "deu-Latn,sports,a,1,1,1,1\n")
