"""Several translators of one sample: requests, joining, judging and averaging."""

import json
import os
import sys
from dataclasses import replace

import jobs
import polars as pl
import pytest
from language_tables import write_domains

from psibench.config.paths import PROMPTS
from psibench.errors import InputError
from psibench.generate.ask import Asking, ask_domains
from psibench.generate.translations import program_of, run_program
from psibench.llm.sections import LlmSettings
from psibench.llm.tasks import Replied
from psibench.tables import Provenance, conform, read_provenance, read_table, write_table
from psibench.tables.build_schemas import (
    OUTCOMES,
    SAMPLE_TRANSLATIONS,
    TEXT_PARTS,
    TRANSLATION_GRADES,
    TRANSLATOR_QUALITY,
)
from psibench.tables.schemas import CORPUS, DOCUMENTS, QUERIES
from psibench.text.lengths import count_whitespace_tokens
from psibench.translate.steps import translation_task
from psibench.translate.translate import TranslateSection, text_parts
from psibench.translate.translators import run_translator_quality, run_translator_sample

SECTION = TranslateSection(llm="x", source_language="eng-Latn", target_language="qps-Latn")
SOURCE = Provenance(stage="build", stage_version=1)
TRANSLATING, JUDGING = translation_task("translator_2"), translation_task("judge_translator_2")
SHORT, LONG = "Steam was new.", "Ships grew fast.\n\nCoal ran out."


def sample() -> pl.DataFrame:
    """Two documents, the second cut into two parts."""
    return pl.DataFrame(
        {
            "_id": ["law/a", "law/b"],
            "text": [SHORT, LONG],
            "origin": "law",
            "domain": "law",
            "doc_id": ["a", "b"],
            "length_bin": ["Q1", "Q2"],
            "parts": [[SHORT], LONG.split("\n\n")],
            "separators": [[""], ["\n\n", ""]],
        }
    )


def reply(item_id, text):
    return Replied(item_id, item_id.rpartition(":")[0], None, {"translation": text})


def translations(*replies):
    gathered = TRANSLATING.gather({"documents": sample()}, SECTION, iter(replies))
    conform(gathered.rows, SAMPLE_TRANSLATIONS, where="test")
    return gathered, gathered.rows.select("_id", "language", "translation").rows()


@pytest.mark.parametrize(
    ("last", "whole"),
    [([], None), ([("law/b:1", "  ")], None), ([("law/b:1", "trois")], "deux\n\ntrois")],
)
def test_a_document_that_lacks_a_part_keeps_its_row(last, whole):
    items = [item.values["text"] for item in TRANSLATING.items({"documents": sample()}, SECTION)]
    assert items == [SHORT, *LONG.split("\n\n")]
    given = [("law/a:0", " un "), ("law/b:0", "deux"), *last]
    gathered, rows = translations(*(reply(*one) for one in given))
    assert [row[2] for row in rows] == ["un", whole]
    n_blank = sum(not text.strip() for _, text in last)
    assert gathered.dropped["reason"].to_list() == ["empty_translation"] * n_blank
    judged = {"documents": gathered.rows}
    ids = ["qps-Latn/law/a", *(["qps-Latn/law/b"] if whole else [])]
    assert [item.id for item in JUDGING.items(judged, SECTION)] == ids
    grades = {"fluency": 5, "accuracy": 4, "completeness": 3, "style": 1}
    found = JUDGING.gather(judged, SECTION, [Replied("qps-Latn/law/a", "", None, grades)])
    conform(found.rows, TRANSLATION_GRADES, where="test")
    columns = ("_id", "domain", "doc_id", "length_bin", *grades)
    graded, ungraded = found.rows.select(columns).rows()
    assert graded == ("qps-Latn/law/a", "law", "a", "Q1", 5, 4, 3, 1)
    assert ungraded == ("qps-Latn/law/b", "law", "b", "Q2", None, None, None, None)


def test_the_sample_has_all_parts_of_its_documents(tmp_path):
    domains, corpora = ["law", "art"], []
    path = str(tmp_path / "text_parts.parquet")
    cut = {}
    for domain in domains:
        texts = {f"{domain}/d{i}": " ".join(["word"] * n) for i, n in enumerate((3, 9))}
        corpus = pl.DataFrame({"_id": list(texts), "text": list(texts.values())}).with_columns(
            char_length=9, word_count=2, token_length=pl.Series([3, 600])
        )
        corpora.append(tmp_path / f"{domain}.parquet")
        write_table(corpus, corpora[-1], CORPUS, provenance=SOURCE)
        cut[domain] = text_parts(
            corpus, QUERIES.empty(), max_tokens=5, count_tokens=count_whitespace_tokens
        )
    write_domains(cut, path, TEXT_PARTS, provenance=SOURCE)
    jobs.run(
        run_translator_sample,
        {"corpora": corpora, "text_parts": [path]},
        {"sample": tmp_path / "sample.parquet"},
        domains=domains,
        per_stratum=1,
        seed=3,
    )
    frame = read_table(tmp_path / "sample.parquet", DOCUMENTS)
    assert frame.select("_id", "origin", "domain", "doc_id", "length_bin").rows() == [
        (f"{domain}/d{i}", domain, domain, f"{domain}/d{i}", f"Q{i + 1}")
        for domain in domains
        for i in range(2)
    ]
    assert frame["parts"].list.len().to_list() == [1, 2, 1, 2]
    for text, parts, separators in frame.select("text", "parts", "separators").iter_rows():
        assert "".join(a + b for a, b in zip(parts, separators, strict=True)) == text


def test_translators_are_columns_in_config_order(tmp_path):
    grades = {
        "one": {"deu-Latn": [5, 3], "ara-Arab": [4, None]},
        "two": {"deu-Latn": [1, 2], "ara-Arab": [2, 2]},
    }
    paths = []
    for name, languages in grades.items():
        for language, given in languages.items():
            rows = [
                (f"{language}/law/{i}", "law", str(i), "Q1", *[g] * 4) for i, g in enumerate(given)
            ]
            frame = pl.DataFrame(rows, schema=TRANSLATION_GRADES.empty().schema, orient="row")
            paths.append(tmp_path / f"{name}-{language}.parquet")
            write_table(frame, paths[-1], TRANSLATION_GRADES, provenance=SOURCE)
    output = tmp_path / "translator_quality.parquet"
    jobs.run(
        run_translator_quality,
        {"grades": paths},
        {"quality": output},
        translators=list(grades),
        languages=["deu-Latn", "ara-Arab"],
    )
    table = read_table(output, TRANSLATOR_QUALITY)
    whole = table.filter(domain="all", length_bin="all", dimension="overall")
    assert whole.select("translator", "language", "n", "n_unjudged", "mean").rows() == [
        ("one", "deu-Latn", 2, 0, 4.0),
        ("one", "ara-Arab", 1, 1, 4.0),
        ("one", "all", 3, 1, 4.0),
        ("two", "deu-Latn", 2, 0, 1.5),
        ("two", "ara-Arab", 2, 0, 2.0),
        ("two", "all", 4, 0, 1.75),
    ]


# A translator that is a file


OUTPUTS = ("outcomes", "usage", "rows", "dropped", "flow")


def asked_of_file(folder, *lines, task=TRANSLATING):
    """Return the outcomes of the sample from a file of (id, language, translation)."""
    path = folder / "made.jsonl"
    columns = ("id", "language", "translation")
    path.write_text(
        "".join(json.dumps(dict(zip(columns, line, strict=False))) + "\n" for line in lines)
    )
    llm = LlmSettings(backend="file", model="file/mine", file=str(path))
    return translated(folder, llm, task=task)


def translated(folder, llm, *, task=TRANSLATING):
    """Return the outcomes of the sample by a translator that is no language model."""
    write_table(sample(), folder / "sample.parquet", DOCUMENTS, provenance=SOURCE)
    outcomes = folder / "outcomes.parquet"
    job = jobs.made(
        "ask",
        {"documents": folder / "sample.parquet"},
        {name: folder / f"{name}.parquet" for name in OUTPUTS},
        domains=["all"],
        store=folder / "store",
    )
    ask_domains(job, Asking(task, SECTION, "x", llm, PROMPTS / "translate.md"), prices={})
    return jobs.rows(outcomes, OUTCOMES), read_provenance(outcomes)


MADE = [("law/a:0", "un"), ("law/b:0", "deux"), ("law/b:1", "")]
IN_FRENCH = [(name, "qps-Latn", text) for name, text in MADE]


def test_a_file_of_translations_gives_the_target_language(tmp_path):
    outcomes, record = asked_of_file(tmp_path, *IN_FRENCH, ("law/a:0", "qps-Arab", "other"))
    values = outcomes.select("item_id", "status", "value", "model").rows()
    assert values == [
        (name, "ok", json.dumps({"translation": text}), "file/mine") for name, text in MADE
    ]
    assert outcomes["key"].n_unique() == 3
    assert record["llm_backend"] == "file"
    assert any(name.endswith("made.jsonl") for name in record["inputs"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (IN_FRENCH[:1], "2 of 3 texts have no translation to qps-Latn; the first is 'law/b:0'"),
        ([*IN_FRENCH, IN_FRENCH[0]], "line 4: second translation of 'law/a:0'"),
        ([*IN_FRENCH, ("law/c:0", "qps-Latn")], "line 4: expected the keys id, language and tr"),
    ],
)
def test_a_file_of_translations_needs_every_text_once(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        asked_of_file(tmp_path, *lines)


def test_a_file_of_translations_cannot_judge(tmp_path):
    judging = replace(TRANSLATING, name="judge_translator_2")
    with pytest.raises(InputError, match="judge_translator_2: language model 'x' is a file"):
        asked_of_file(tmp_path, *IN_FRENCH, task=judging)


# A translator that is a program

UPPER = "import sys\nfor line in sys.stdin: print(line.strip().upper())"


def program(code, *arguments):
    """A translator that runs Python code."""
    command = [sys.executable, "-c", code, *arguments]
    codes = {"qps-Latn": "qps"}
    return LlmSettings(
        backend="command", model="command/mine", command=command, language_codes=codes
    )


def test_a_program_translates_line_by_line(tmp_path):
    outcomes, record = translated(tmp_path, program(UPPER))
    made = dict(outcomes.select("item_id", "value").rows())
    assert json.loads(made["law/a:0"])["translation"] == SHORT.upper()
    assert outcomes["status"].to_list() == ["ok"] * 3
    assert record["llm_backend"] == "command"
    assert record["params"]["command"][0] == sys.executable


def test_blank_lines_are_kept_and_not_sent(tmp_path):
    code = "import sys\nfor line in sys.stdin: print('<%s>' % line.strip())"
    found = run_program(program(code), ["a\n\nb  c\n", "", "d"], SECTION, lambda: None)
    assert found == ["<a>\n\n<b c>", "", "<d>"]


def test_languages_are_named_by_their_codes():
    llm = program("", "{source}-{target}")
    assert program_of(llm, SECTION)[-1] == "eng-Latn-qps"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('no such mode')", "ended with exit code 1: no such mode"),
        (
            "import os; os.write(1, b'one\\nse\\xf1or\\nthree\\n')",
            r"not UTF-8: se\\xf1or. Set its enc",
        ),
        ("print('one')", "wrote 1 lines for 3 lines of text; it has to write one line for each"),
    ],
)
def test_a_program_that_fails_is_reported(tmp_path, code, message):
    with pytest.raises(InputError, match=message):
        run_program(program(code), ["a", "b", "c"], SECTION, lambda: None)


def test_a_missing_program_is_reported():
    llm = LlmSettings(backend="command", model="command/x", command=["no-such-translator"])
    with pytest.raises(InputError, match="no-such-translator: no such program on PATH"):
        run_program(llm, ["a"], SECTION, lambda: None)


def test_a_program_ends_with_its_job(tmp_path):
    mark = tmp_path / "pid"
    code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def stop_soon():
        if mark.is_file() and mark.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_program(program(code), ["a"], SECTION, stop_soon)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)
