"""From translated corpora to tables of translation quality, on tiny tables."""

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.build_schemas import (
    TRANSLATION_AGREEMENT,
    TRANSLATION_GRADES,
    TRANSLATION_QUALITY,
)
from psibench.tables.domains import by_place
from psibench.tables.schemas import CORPUS, DOCUMENTS
from psibench.translate.quality import DIMENSIONS, run_quality, run_quality_sample

SOURCE = Provenance(stage="build", stage_version=1)
LENGTHS = {"a": 100, "b": 300, "c": 600, "d": 5000}


DOMAINS = ["law", "game"]


def write_corpora(path, language, lengths):
    """Write a corpus with both domains."""
    rows = [
        (language, domain, name, f"{domain} {name}, {language}", 9, 2, n_tokens)
        for domain in DOMAINS
        for name, n_tokens in lengths.items()
    ]
    spec = by_place(CORPUS)
    frame = pl.DataFrame(rows, schema=spec.empty().schema, orient="row")
    write_table(frame, path, spec, provenance=SOURCE)
    return path


def draw(tmp_path, kept):
    """Draw one document per stratum; ``kept`` has the documents of each language."""
    source = write_corpora(tmp_path / "eng.parquet", "eng-Latn", LENGTHS)
    # The strata use the lengths of the source, not of the translation.
    corpora = [
        write_corpora(tmp_path / f"{lang}.parquet", lang, dict.fromkeys(reversed(names), 1))
        for lang, names in kept.items()
    ]
    output = tmp_path / "sample.parquet"
    jobs.run(
        run_quality_sample,
        {"source_corpora": [source], "corpora": corpora},
        {"sample": output},
        languages=list(kept),
        domains=DOMAINS,
        per_stratum=1,
        seed=3,
    )
    return read_table(output, DOCUMENTS)


def test_a_sample_covers_every_domain_and_length(tmp_path):
    # cleaning removed a from one language, d from the other
    frame = draw(tmp_path, {"fra-Latn": "bcd", "deu-Latn": "bc"})
    assert frame.select("language", "domain", "doc_id", "length_bin").rows() == [
        ("fra-Latn", "law", "b", "Q1"),
        ("fra-Latn", "law", "c", "Q2"),
        ("fra-Latn", "law", "d", "Q4"),
        ("fra-Latn", "game", "b", "Q1"),
        ("fra-Latn", "game", "c", "Q2"),
        ("fra-Latn", "game", "d", "Q4"),
        ("deu-Latn", "law", "b", "Q1"),
        ("deu-Latn", "law", "c", "Q2"),
        ("deu-Latn", "game", "b", "Q1"),
        ("deu-Latn", "game", "c", "Q2"),
    ]
    for row in frame.iter_rows(named=True):
        language, domain, name = row["language"], row["domain"], row["doc_id"]
        assert row["_id"] == f"{language}/{domain}/{name}"
        assert row["origin"] == domain
        assert row["text"] == f"{domain} {name}, eng-Latn"
        assert row["translation"] == f"{domain} {name}, {language}"


HUMAN = "language,domain,doc_id,fluency,accuracy,completeness,style\n"


GIVEN = {
    "deu-Latn": {"a": [5, 5, 5, 5], "b": [3, 4, 5, 4], "c": [None] * 4},  # c: no usable reply
    "fra-Latn": {"a": [2, 2, 2, 2]},
}


def assess(tmp_path, *human):
    """Return the model's grades, and rows of files with human grades of domain law."""
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
    jobs.run(run_quality, {"grades": paths, "human": files}, outputs, languages=list(GIVEN))
    return [read_table(outputs[name], spec) for name, spec in specs.items()]


def test_human_grades_outside_the_sample_are_counted(tmp_path, caplog):
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
    assert "ignoring 1 of 5 documents, which are not in the quality sample" in caplog.text
    assert "first: deu-Latn, law, gone" in caplog.text
    inputs = read_provenance(tmp_path / "agreement.parquet")["inputs"]
    assert any(path.endswith("human0.csv") for path in inputs)


def test_human_grades_without_sampled_documents_are_refused(tmp_path):
    said = (
        "human1.csv: none of its 1 documents is in the quality sample; first: deu-Latn, sports, a"
    )
    with pytest.raises(InputError, match=said):
        assess(tmp_path, "deu-Latn,law,a,5,4,4,4\n", "deu-Latn,sports,a,1,1,1,1\n")
