from pathlib import Path

import polars as pl
import pytest
import yaml

from psibench.cli import main
from psibench.config.paths import prompt_path
from psibench.llm.prompts import load_prompt
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import PAIRS, PROPOSED
from psibench.tables.schemas import DOCUMENTS

POSIR = {
    "recipe": "posir",
    "source": {"kind": "files", "paths": ["texts"]},
    "propose_questions": {"llm": "stand-in", "n_questions": 2},
    "locate_span": {"llm": "stand-in"},
}
JUDGED = {
    "recipe": "controlled",
    "source": {"kind": "files", "paths": ["texts"]},
    "choose_configuration": {"llm": "stand-in"},
    "generate_positional_query": {"llm": "stand-in"},
    "verify": {"rerankers": ["embedded-bm25"], "rule": "margin"},
    "grade": {"llm": "stand-in"},
    "audit": {"llm": "stand-in-rare"},
    "false_negatives": {
        "protocol": "fineweb_posq",
        "recall": {"model": "bm25"},
        "rerankers": ["embedded-bm25"],
        "judges": ["stand-in", "stand-in-rare"],
    },
}
PROMPT = """---
task: locate_span
variables: [document, question, answer]
response: {type: object, properties: {quote: {type: string}}, required: [quote]}
---
## system
Find it.

## user
{{ question }} ({{ answer }}) in: {{ document }}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(folder, **benchmarks):
    path = folder / "my.yaml"
    path.write_text(yaml.safe_dump({"benchmarks": benchmarks or {"mine": POSIR}}))
    return str(path)


def tables(folder, name="mine"):
    build = folder / folder_of(name)
    documents = pl.DataFrame(
        {
            "_id": [f"d{n}" for n in range(5)],
            "text": [f"Text {n}." for n in range(5)],
            "origin": "o",
            "length": 7,
            "length_bin": "0-256",
        }
    )
    made = Provenance("sample", 1)
    write_table(documents, build / "documents.parquet", DOCUMENTS, provenance=made)
    proposed = pl.DataFrame(
        {
            "_id": ["d3-q1"],
            "text": ["Which text?"],
            "pos_corpus_id": ["d3"],
            "target_position": ["end"],
            "answer": ["Text {{ 3 }}"],
        }
    )
    write_table(proposed, build / "propose_questions.parquet", PROPOSED, provenance=made)


def pairs(task, name="mine"):
    build = folder_of(name)
    row = ("d3-q1--end", "d3-q1", "d3", "end", "Which text?", "Text {{ 3 }}")
    frame = pl.DataFrame([row], schema=list(PAIRS.column_names), orient="row")
    made = Provenance("grade", 1)
    write_table(frame, build / f"{task}_pairs.parquet", PAIRS, provenance=made)


def folder_of(name):
    return Path("results") / name / "build" / "eng-Latn" / "general"


def refusal(capsys, *argv):
    assert main(["prompts", *argv]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


def test_list_names_every_shipped_template_with_its_variables(capsys):
    assert main(["prompts", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["task", "variables", "description"]
    assert [line.split()[0] for line in lines[1:]] == [
        "choose_configuration",
        "generate_positional_query",
        "generate_questions",
        "grade_relevance",
        "judge_segment",
        "locate_span",
        "propose_questions",
        "summarise",
    ]
    assert "locate_span                document, question, answer" in lines[6]
    assert lines[6].endswith("quoted word for word (recipe posir).")


def test_render_prints_the_final_messages_under_their_roles(folder, capsys):
    tables(folder)
    (folder / "own.md").write_text(PROMPT)
    own = POSIR | {"locate_span": {"llm": "stand-in", "prompt": "own.md"}}
    path = config(folder, mine=own)
    assert main(["prompts", "render", "locate_span", "--row", "d3-q1", "--config", path]) == 0
    assert capsys.readouterr().out == (
        "## system\nFind it.\n\n## user\nWhich text? (Text {{ 3 }}) in: Text 3.\n"
    )


def test_render_uses_the_shipped_template_and_the_drawn_values(folder, capsys):
    tables(folder)
    path = config(folder)
    assert main(["prompts", "render", "propose_questions", "--row", "d1", "--config", path]) == 0
    printed = capsys.readouterr().out
    assert "<document>\nText 1.\n</document>" in printed
    assert "write <n_questions>2</n_questions> questions" in printed
    system, _ = load_prompt_messages("propose_questions")
    assert printed.startswith(f"## system\n{system}\n\n## user\n")


def load_prompt_messages(task):
    return [text for _, text in load_prompt(prompt_path(task, None)).messages]


def test_an_unknown_id_is_refused_with_three_that_there_are(folder, capsys):
    tables(folder)
    message = refusal(
        capsys, "render", "propose_questions", "--row", "d9", "--config", config(folder)
    )
    assert "propose_questions of mine: no item 'd9' among 5; some ids: d0, d1, d2\n" in message


def test_missing_tables_are_named_with_the_command_that_makes_them(folder, capsys):
    path = config(folder)
    message = refusal(capsys, "render", "locate_span", "--row", "d1-q1", "--config", path)
    table = "results/mine/build/eng-Latn/general/documents.parquet"
    assert f"{table}, " in message
    assert "propose_questions.parquet: not made yet" in message
    assert f"`snakemake --profile profiles/local --configfile {path} {table} " in message


def test_a_task_of_several_benchmarks_needs_a_choice(folder, capsys):
    tables(folder, "two")
    path = config(folder, one=POSIR, two=POSIR)
    asked = ("render", "propose_questions", "--row", "d1", "--config", path)
    assert "choose one with --benchmark: one, two" in refusal(capsys, *asked)
    assert main(["prompts", *asked, "--benchmark", "two"]) == 0
    assert "Text 1." in capsys.readouterr().out
    assert "no benchmark of the name 'three'" in refusal(capsys, *asked, "--benchmark", "three")


def test_a_task_that_no_benchmark_has_is_refused_with_the_tasks_there_are(folder, capsys):
    message = refusal(capsys, "render", "summarise", "--row", "d1", "--config", config(folder))
    assert "no benchmark in the config has a task 'summarise'; tasks: " in message
    assert "propose_questions, locate_span" in message


@pytest.mark.parametrize(
    ("task", "tag"),
    [
        ("grade_first", "passage"),
        ("grade_rest", "passage"),
        ("audit", "segment"),
        ("judge_2", "passage"),
    ],
)
def test_render_shows_what_a_judge_gets_for_a_pair(task, tag, folder, capsys):
    tables(folder)
    pairs(task)
    path = config(folder, mine=JUDGED)
    assert main(["prompts", "render", task, "--row", "d3-q1--end", "--config", path]) == 0
    printed = capsys.readouterr().out
    assert "<query>\nWhich text?\n</query>" in printed
    assert f"<{tag}>\nText {{{{ 3 }}}}\n</{tag}>" in printed
    message = refusal(capsys, "render", task, "--row", "d3-q1", "--config", path)
    assert f"{task} of mine: no item 'd3-q1' among 1; some ids: d3-q1--end\n" in message


def test_the_own_template_of_a_judge_is_used(folder, capsys):
    tables(folder)
    pairs("audit")
    header, _ = Path(prompt_path("judge_segment", None)).read_text().split("## system")
    (folder / "own.md").write_text(f"{header}## user\n{{{{ query }}}} / {{{{ segment }}}}\n")
    path = config(folder, mine=JUDGED | {"audit": {"llm": "stand-in", "prompt": "own.md"}})
    assert main(["prompts", "render", "audit", "--row", "d3-q1--end", "--config", path]) == 0
    assert capsys.readouterr().out == "## user\nWhich text? / Text {{ 3 }}\n"


def test_missing_pairs_are_named_with_the_command_that_makes_them(folder, capsys):
    tables(folder)
    path = config(folder, mine=JUDGED)
    message = refusal(capsys, "render", "judge_1", "--row", "x", "--config", path)
    table = "results/mine/build/eng-Latn/general/judge_1_pairs.parquet"
    assert f"judge_1 reads {table}: not made yet" in message
    assert f"`snakemake --profile profiles/local --configfile {path} {table}`" in message


def test_a_template_that_is_no_task_is_refused_with_the_tasks_that_use_it(folder, capsys):
    path = config(folder, mine=JUDGED, other=POSIR)
    message = refusal(capsys, "render", "grade_relevance", "--row", "x", "--config", path)
    assert "grade_first (grade_relevance), grade_rest (grade_relevance)" in message
    assert "audit (judge_segment), judge_1 (grade_relevance), judge_2 (grade_rele" in message
    message = refusal(
        capsys, "render", "judge_3", "--row", "x", "--config", path, "--benchmark", "other"
    )
    assert message.endswith("tasks: propose_questions, locate_span\n")
