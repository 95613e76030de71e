"""Several domains and languages, native and translated, in real snakemake runs."""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from workflow_project import Project, once_per_session

from psibench.llm.standin.rules import fault_of
from psibench.tables import read_provenance, read_table
from psibench.tables.build_schemas import (
    FLOW,
    TRANSLATOR_QUALITY,
)
from psibench.tables.domains import OfDomain
from psibench.tables.ledger import check_balance
from psibench.tables.schemas import ATTRITION, CORPUS, LANGUAGE_AVERAGES, PSI_TABLE, QUERIES
from psibench.text.languages import english_name

SENTENCES = {
    "eng-Latn": "The {a} keeper counted {b} barrels. Rain fell over the {c} harbour all night.",
    "spa-Latn": "El guarda {a} contaba {b} barriles. La lluvia cayó sobre el puerto {c} anoche.",
}
NAMES = [f"{a}{b}" for a in ("ba", "do", "fi", "gu", "ke") for b in ("rin", "sol", "tam", "vex")]
DOMAINS = {"ports": ("eng-Latn", "spa-Latn"), "mills": ("eng-Latn",)}


def write_questions(path: Path, domain: str, language: str, *, n_contexts: int = 16) -> None:
    """Write SQuAD-format data: questions about the first and the last sentence of a context."""
    paragraphs = []
    for number in range(n_contexts):
        names = [NAMES[(number * 3 + k * 7) % len(NAMES)] + domain for k in range(9)]
        parts = [
            SENTENCES[language].format(a=a, b=number + 2, c=c)
            for a, c in zip(names[::2], names[1::2], strict=False)
        ]
        context = "\n\n".join(parts)
        qas = []
        for place, name in (("early", names[0]), ("late", names[7])):
            answer = {"text": name, "answer_start": context.index(name)}
            question = f"{name} {names[2]} {number}?"
            qas.append({"id": f"{number}-{place}", "question": question})  # same ids per domain
            qas[-1]["answers"] = [answer]
        paragraphs.append({"context": context, "qas": qas})
    path.write_text(json.dumps({"version": "test", "data": [{"paragraphs": paragraphs}]}))


def languages_config() -> dict[str, Any]:
    corpora = [
        {
            "domain": domain,
            "language": language,
            "source": {"kind": "squad", "paths": [f"{domain}.{language}.json"]},
        }
        for domain, languages in DOMAINS.items()
        for language in languages
    ]
    return {
        "benchmarks": {
            "many": {
                "recipe": "squad_posq",
                "corpora": corpora,
                "cross_lingual": ["spa-Latn-eng-Latn", "qps-Latn-eng-Latn"],
                "buckets": ["thirds"],
                "translate": {
                    "llm": "stand-in",
                    "to": ["qps-Latn"],
                    "max_part_tokens": 40,
                    "clean": {"refusals": {"llm": "stand-in-sentence"}, "outliers": None},
                    "quality": {"llm": "stand-in"},
                },
            }
        },
        "models": ["bm25"],
        "length_tokenizer": "words",
        "uncertainty": {"min_bucket_size": 5},
    }


def make(folder: Path) -> None:
    for domain, languages in DOMAINS.items():
        for language in languages:
            write_questions(folder / f"{domain}.{language}.json", domain, language)
    project = Project(folder)
    project.write_config(languages_config())
    project.run()


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(once_per_session(tmp_path_factory, "languages", make))


@pytest.fixture
def changed(made: Project, tmp_path: Path) -> Project:
    """A copy of the finished project."""
    shutil.copytree(made.folder, tmp_path / "copy", symlinks=True, copy_function=shutil.copy2)
    return Project(tmp_path / "copy")


def table(made: Project, path: str, spec: Any) -> pl.DataFrame:
    return read_table(made.folder / "results" / path, spec)


def data(made: Project, language: str, domain: str, name: str, spec: Any) -> pl.DataFrame:
    path = made.folder / f"results/many/data/{language}/{name}.parquet"
    return read_table(OfDomain(str(path), domain), spec)


def test_every_pair_has_rows_for_all_and_each_domain(made: Project) -> None:
    psi = table(made, "psi_table.parquet", PSI_TABLE).filter(evidence="all")
    rows = {(r["query_lang"], r["corpus_lang"], r["domain"]) for r in psi.to_dicts()}
    english = {("eng-Latn", "eng-Latn", domain) for domain in ("all", "mills", "ports")}
    translated = {
        (queries, documents, domain)
        for queries, documents in (("qps-Latn", "qps-Latn"), ("qps-Latn", "eng-Latn"))
        for domain in ("all", "mills", "ports")
    }
    spanish = {("spa-Latn", "spa-Latn", "all"), ("spa-Latn", "eng-Latn", "all")}
    assert rows == english | translated | spanish
    found = {(r["query_lang"], r["corpus_lang"]): r for r in psi.filter(domain="all").to_dicts()}
    # Names are the same in both languages, so BM25 finds English documents by Spanish questions.
    monolingual = found["eng-Latn", "eng-Latn"]["mean"]
    assert found["spa-Latn", "eng-Latn"]["mean"] > 0.8 * monolingual > 0.4
    assert found["spa-Latn", "eng-Latn"]["n_queries"] == 32
    assert found["qps-Latn", "qps-Latn"]["mean"] > 0.8 * monolingual
    assert found["qps-Latn", "eng-Latn"]["mean"] < 0.5 * monolingual
    averages = table(made, "language_averages.parquet", LANGUAGE_AVERAGES).filter(evidence="all")
    assert set(averages.get_column("setting")) == {"monolingual", "cross-lingual"}
    assert averages.filter(setting="monolingual").get_column("n_languages").to_list() == [3]


def test_texts_lost_in_translation_are_in_the_ledger(made: Project) -> None:
    lost = table(made, "many/attrition.parquet", ATTRITION).filter(language="qps-Latn")
    for domain in DOMAINS:
        path = made.folder / "results/many/flow.parquet"
        flow = read_table(OfDomain(str(path), domain, "qps-Latn"), FLOW)
        check_balance(lost.filter(domain=domain), flow)
        for unit, name, spec in (("documents", "corpus", CORPUS), ("queries", "queries", QUERIES)):
            kept = flow.filter(stage="clean_translations", unit=unit).item(0, "kept")
            assert kept == data(made, "qps-Latn", domain, name, spec).height
    record = read_provenance(made.folder / "results/many/data/qps-Latn/corpus.parquet")
    assert record is not None
    assert record["llm_backend"] == "stand-in"
    assert record["revisions"]["llm:stand-in-sentence"] == "stand-in/sentence"


def test_another_language_repeats_no_translation(changed: Project) -> None:
    config = changed.read_config()
    config["benchmarks"]["many"]["translate"]["to"].append("qps-Arab")
    changed.write_config(config)
    planned = changed.planned()
    assert "text_parts" not in planned
    assert planned["ask"] == 2 + 2  # translate and judge_refusals; the quality check
    assert planned["data"] == 1


def test_translators_are_compared_on_a_sample_without_other_requests(changed: Project) -> None:
    config = changed.read_config()
    translators = {"own": {"llm": "stand-in"}, "other": {"llm": "stand-in-rare"}}
    config["benchmarks"]["many"]["translate"]["quality"]["translators"] = translators
    changed.write_config(config)
    planned = changed.planned()
    # Each of two translates the sample into one language and is judged.
    assert planned.pop("ask") == 2 * 2
    assert set(planned) == {"translator_sample", "translator_quality", "report", "published"}
    changed.run("results/many/translator_quality.parquet")
    quality = table(changed, "many/translator_quality.parquet", TRANSLATOR_QUALITY)
    whole = quality.filter(domain="all", length_bin="all", dimension="overall")
    assert whole.select("translator", "language").rows() == [
        ("own", "qps-Latn"),
        ("other", "qps-Latn"),
    ]
    assert whole["n"].to_list() == [6, 6]  # three documents of each domain
    # The benchmark's translation already sent all requests of the translator `own`.
    build = changed.folder / "results/many/build/qps-Latn"
    asked, again = (
        set(pl.read_parquet(build / f"{task}.outcomes.parquet")["key"])
        for task in ("translate", "translator_1")
    )
    assert len(again) > 6
    assert again <= asked


REFUSED = "The {name} keeper of mill {number} counted barrels of flour."


def write_refused_questions(path: Path) -> None:
    """Write questions about contexts that the stand-in all refuses to translate."""
    contexts = (REFUSED.format(name=NAMES[k % len(NAMES)], number=k) for k in range(9_999))
    language = english_name("qps-Latn")
    refused = (text for text in contexts if fault_of(text, language)[1] == "refusal")
    paragraphs = [
        {
            "context": text,
            "qas": [
                {
                    "id": f"{number}-{name}",
                    "question": f"who counted {name}?",
                    "answers": [{"text": name, "answer_start": text.index(name)}],
                }
                for name in ("keeper", "flour")
            ],
        }
        for number, text in enumerate(islice(refused, 6))
    ]
    path.write_text(json.dumps({"version": "test", "data": [{"paragraphs": paragraphs}]}))


def test_a_domain_emptied_by_cleaning_is_left_out(tmp_path: Path) -> None:
    config = languages_config()
    section = config["benchmarks"]["many"]
    section["corpora"] = [one for one in section["corpora"] if one["language"] == "eng-Latn"]
    section["cross_lingual"] = ["qps-Latn-eng-Latn"]
    write_questions(tmp_path / "ports.eng-Latn.json", "ports", "eng-Latn")
    write_refused_questions(tmp_path / "mills.eng-Latn.json")
    project = Project(tmp_path)
    project.write_config(config)
    project.run()

    psi = table(project, "psi_table.parquet", PSI_TABLE).filter(evidence="all")
    rows = {(r["query_lang"], r["corpus_lang"], r["domain"]) for r in psi.to_dicts()}
    english = {("eng-Latn", "eng-Latn", domain) for domain in ("all", "mills", "ports")}
    assert english <= rows
    assert {domain for asked, _, domain in rows if asked == "qps-Latn"} <= {"all", "ports"}
    found = {
        (r["query_lang"], r["corpus_lang"]): r["n_queries"]
        for r in psi.filter(domain="all").to_dicts()
    }
    kept = data(project, "qps-Latn", "ports", "queries", QUERIES).height
    assert found == {
        ("eng-Latn", "eng-Latn"): 44,  # 32 and 12
        ("qps-Latn", "qps-Latn"): kept,
        ("qps-Latn", "eng-Latn"): kept,
    }
    # The ledger has the number of texts before and after cleaning, and the reasons.
    path = project.folder / "results/many/flow.parquet"
    flow = read_table(OfDomain(str(path), "mills", "qps-Latn"), FLOW)
    counts = flow.filter(stage="clean_translations").select("unit", "entered", "kept").rows()
    assert sorted(counts) == [("documents", 6, 0), ("queries", 12, 0)]
    lost = table(project, "many/attrition.parquet", ATTRITION)
    lost = lost.filter(language="qps-Latn", domain="mills")
    check_balance(lost, flow)
    documents = lost.filter(stage="clean_translations", unit="documents")
    assert documents["reason"].to_list() == ["refusal"] * 6
    output = "".join(one.read_text() for one in (tmp_path / "logs").rglob("*.log"))
    assert "The domain is left out in this language (on_empty: drop)" in output
