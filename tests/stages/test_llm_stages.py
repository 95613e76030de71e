"""Stages ask, gather and assemble, on a minimal task."""

import json
import logging

import jobs
import polars as pl
import pytest

from psibench.errors import InputError
from psibench.generate import ask as stage_module
from psibench.generate.ask import (
    Asking,
    ask_domains,
    gather,
)
from psibench.generate.recipes import run_assemble
from psibench.llm.answer_store import stored_answers
from psibench.llm.asking import RequestChain
from psibench.llm.connection import TryFailedError
from psibench.llm.limits import BudgetReachedError
from psibench.llm.sections import LlmSettings, Price
from psibench.llm.standin import server as standin_server
from psibench.llm.standin.completion import complete
from psibench.llm.tasks import (
    Gathered,
    LlmTask,
    LlmTaskSection,
    TaskItem,
    refusal,
    shard_documents,
)
from psibench.tables import read_provenance, read_table, write_table
from psibench.tables.build_schemas import CANDIDATES, FLOW, LLM_USAGE, OUTCOMES, VERDICTS
from psibench.tables.derived import derived
from psibench.tables.dropped import Flow, dropped_frame, flow_frame, flow_of
from psibench.tables.schemas import ATTRITION, DOCUMENTS
from psibench.tables.slices import Slice

TEMPLATE = """---
task: judge_segment
variables: [query, segment]
response:
  type: object
  properties: {verdict: {type: string, enum: ["yes", "no"]}}
  required: [verdict]
---
## user
<query>{{ query }}</query> <segment>{{ segment }}</segment>
"""


def items(tables, section):
    for doc_id, text in tables["documents"].select("_id", "text").iter_rows():
        yield TaskItem(f"{doc_id}-x", doc_id, {"query": "copper mine", "segment": text}, "end")


def rows_of(tables, section, replies):
    """Keep the answers yes; drop the answers no as items of the same unit."""
    kept, refused = [], []
    for reply in replies:
        if reply.value["verdict"] == "yes":
            kept.append((reply.item_id, "q", reply.doc_id, "document", True))
        else:
            refused.append(refusal("judge_segment", "segments", reply, "said_no"))
    rows = pl.DataFrame(kept, schema=list(VERDICTS.column_names), orient="row")
    dropped = dropped_frame(refused)
    return Gathered(rows, dropped, (flow_of("segments", len(kept), dropped),))


TASK = LlmTask("judge_segment", "segments", ("documents",), VERDICTS, items, rows_of)
SECTION = LlmTaskSection(llm="it")
TEXTS = {
    "a": "A copper mine.",
    "b": "A sheep.",
    "c": "The copper mine shut.",
    "d": "A copper mine.",
}


@pytest.fixture
def folder(tmp_path):
    documents = pl.DataFrame(
        {"_id": list(TEXTS), "text": list(TEXTS.values()), "origin": ["here"] * len(TEXTS)}
    )
    source = derived("sample", params={})
    write_table(documents, tmp_path / "documents.parquet", DOCUMENTS, provenance=source)
    (tmp_path / "prompt.md").write_text(TEMPLATE)
    return tmp_path


RETIRED = {"retired": {"since": "2020-01-01", "instead": "take another"}}


def test_a_retired_model_answers_only_from_the_store(folder):
    with pytest.raises(InputError, match="'stand-in/rules' is not served since 2020-01-01: take"):
        ask(folder, **RETIRED)
    assert not (table(folder, "outcomes")).exists()
    assert not list(stored_answers(folder / "store" / "llm" / "it"))
    before = ask(folder)
    assert ask(folder, **RETIRED).equals(before)


ASKED = {
    "outcomes": OUTCOMES,
    "usage": LLM_USAGE,
    "rows": VERDICTS,
    "dropped": ATTRITION,
    "flow": FLOW,
}
"""Outputs of a job, below the folder of its shard."""


def ask(folder, *, shard="", prices=None, **changes):
    """Ask a shard of the task; return its outcomes."""
    fields = {"backend": "stand-in", "model": "stand-in/rules"}
    llm = LlmSettings.model_validate(fields | {"asking": {"max_tries": 2}} | changes)
    job = jobs.made(
        "ask",
        {"documents": folder / "documents.parquet"},
        {name: table(folder, name, shard) for name in ASKED},
        portion=shard,
        store=folder / "store",
    )
    asking = Asking(TASK, SECTION, "it", llm, folder / "prompt.md")
    ask_domains(job, asking, step=1, prices=prices or {})
    return jobs.rows(table(folder, "outcomes", shard), OUTCOMES)


def table(folder, name, shard=""):
    return folder / f"judge_segment{shard}.{name}.parquet"


def test_outcomes_follow_the_items_and_have_usage(folder):
    outcomes = ask(folder)
    assert outcomes["item_id"].to_list() == ["a-x", "b-x", "c-x", "d-x"]
    verdicts = [json.loads(value)["verdict"] for value in outcomes["value"]]
    assert verdicts == ["yes", "no", "yes", "yes"]
    (used,) = read_table(table(folder, "usage"), LLM_USAGE).to_dicts()
    assert used["n_items"] == used["n_ok"] == 4
    assert used["n_requests"] == 3  # a and d make the same request
    assert (used["input_tokens"], used["output_tokens"]) == (60, 27)  # words and single marks
    record = read_provenance(table(folder, "outcomes"))
    assert record["queries_by"] == "llm:stand-in/rules"
    assert record["llm_backend"] == "stand-in"
    assert len(record["prompt_hash"]) == 64


def reply_with(monkeypatch, form):
    """Make the stand-in put its replies into a form with the draft `no`."""

    def complete_so(body, rng):
        data = complete(body, rng)
        message = data["choices"][0]["message"]
        message["content"] = form.format('{"verdict": "no"}', message["content"])
        return data

    monkeypatch.setattr(standin_server, "complete", complete_so)


def test_thoughts_around_replies_are_counted_in_the_log(folder, monkeypatch, caplog, capsys):
    reply_with(monkeypatch, "<thinking>{}?</thinking>{}")
    caplog.set_level(logging.INFO, "psibench")
    verdicts = [json.loads(value)["verdict"] for value in ask(folder)["value"]]
    assert verdicts == ["yes", "no", "yes", "yes"]
    assert "thoughts removed from the replies to 4 items" in caplog.text
    assert "warning" not in capsys.readouterr().err


def test_replies_that_cannot_be_parsed_are_counted(folder, monkeypatch, capsys):
    # Three requests (a and d make the same), each sampled three times; b's draft is its answer.
    reply_with(monkeypatch, "{} No, wait: {}")
    assert ask(folder)["status"].to_list() == ["malformed", "ok", "malformed", "malformed"]
    warned = capsys.readouterr().err
    assert "6 replies could not be parsed (several_values 6)" in warned
    assert "3 of 4 items have no value" in warned


def test_requests_without_a_reply_fail_the_job(folder):
    with pytest.raises(
        InputError,
        match=r"4 of 4 requests .* got no reply \(connection.*run again to send",
    ):
        ask(folder, base_url="http://127.0.0.1:9/v1")
    assert not (table(folder, "outcomes")).exists()


def test_the_budget_includes_stored_answers(folder):
    ask(folder)
    (used,) = read_table(table(folder, "usage"), LLM_USAGE).to_dicts()
    (folder / "prompt.md").write_text(TEMPLATE + "!")
    price = Price(input_usd=1e6, output_usd=0, as_of="2026-01-01")  # a dollar per token
    limited = {"budget_usd": used["input_tokens"] + 1, "sampling": {"max_output_tokens": 9}}
    with pytest.raises(BudgetReachedError, match=rf"\({used['input_tokens']}\.0000 USD spent"):
        ask(folder, prices={"stand-in/rules": price}, **limited)


def test_a_shard_has_some_documents_and_their_rows():
    names = [f"d{n}" for n in range(99)]
    whole = pl.DataFrame({"_id": ["p"]})
    tables = {"documents": pl.DataFrame({"_id": names}), "other": whole}
    tables |= {name: pl.DataFrame({name: [*names, *names]}) for name in ("doc_id", "pos_corpus_id")}
    parts = [shard_documents(tables, one) for one in Slice.every(4)]
    assert sorted(pl.concat(part["documents"] for part in parts)["_id"]) == sorted(names)
    for part in parts:
        assert part["other"].equals(whole)
        for name in ("doc_id", "pos_corpus_id"):
            assert sorted(part[name][name]) == sorted([*part["documents"]["_id"]] * 2)


def outcome(item_id, status="ok", value=None):
    return {
        "item_id": item_id,
        "doc_id": item_id.split("-")[0],
        "target_position": "end",
        "status": status,
        "reason": "" if status == "ok" else "why",
        "value": json.dumps(value) if status == "ok" else None,
        "reply": None if status == "ok" else "raw words",
        "key": item_id.encode().hex().ljust(64, "0"),
        "model": "m",
    } | dict.fromkeys(("n_replies", "input_tokens", "cached_input_tokens", "output_tokens"), 1)


def outcome_frame(*rows):
    schema = pl.DataFrame(pl.from_arrow(OUTCOMES.schema.empty_table())).schema
    return pl.DataFrame(list(rows), schema=schema)


def test_each_dropped_item_is_counted_once(folder):
    tables = {"documents": read_table(folder / "documents.parquet", DOCUMENTS)}
    found = outcome_frame(
        outcome("a-x", value={"verdict": "yes"}),
        outcome("b-x", value={"verdict": "no"}),
        outcome("c-x", status="refused"),
        outcome("d-x", status="malformed"),
    )
    gathered = gather(TASK, SECTION, tables, found)
    # 4 asked, 2 without a value, 1 refused by the task: 1 kept, in one line for the unit.
    assert gathered.flow == (Flow("segments", 4, 1),)
    assert sorted(gathered.dropped["reason"]) == ["malformed", "refused", "said_no"]
    assert set(gathered.dropped["unit"]) == {"segments"}
    lengths = dict(gathered.dropped.select("doc_id", "char_length").iter_rows())
    assert lengths == {name: len(TEXTS[name]) for name in "bcd"}  # of their documents
    refused = gathered.dropped.filter(reason="refused").row(0, named=True)
    assert (refused["item_id"], refused["doc_id"]) == ("c-x", "c")
    assert refused["detail"] == "why: raw words"


def test_two_shards_give_the_rows_of_one_job(folder):
    ask(folder)
    shards = [one.folder for one in Slice.every(2)]
    for shard in shards:
        (folder / f"judge_segment{shard}").parent.mkdir(exist_ok=True)
        ask(folder, shard=shard)
    for name in ("outcomes", "rows", "dropped"):
        whole = pl.read_parquet(table(folder, name))
        parts = pl.concat(pl.read_parquet(table(folder, name, shard)) for shard in shards)
        assert parts.equals(whole), name
    for name in ("usage", "flow"):
        counts = [pl.read_parquet(table(folder, name, shard)) for shard in shards]
        summed = pl.concat(counts).select(pl.col(pl.Int64, pl.Int32).exclude("step").sum())
        whole = pl.read_parquet(table(folder, name)).select(summed.columns)
        # Documents a and d have one text: two shards request it twice, one job once.
        same = [one for one in summed.columns if "tokens" not in one and one != "n_requests"]
        assert summed.select(same).rows() == whole.select(same).rows(), name


def test_a_task_that_keeps_nothing_gives_a_warning(folder, monkeypatch, capsys):
    reply_with(monkeypatch, "{} No, wait: {}")
    documents = pl.DataFrame({"_id": list("ac"), "text": ["A copper mine."] * 2, "origin": "x"})
    source = derived("sample", params={})
    write_table(documents, folder / "documents.parquet", DOCUMENTS, provenance=source)
    ask(folder)
    place = table(folder, "dropped")
    none = "none of 2 segments"
    told = capsys.readouterr().err
    assert f"judge_segment keeps {none} of general, eng-Latn: malformed 2" in told
    assert f"A row for each is in {place}" in told
    later = flow_frame("generate", 2, [Flow("queries", 0, 0)])
    write_table(later, folder / "generate.flow.parquet", FLOW, provenance=source)
    write_table(CANDIDATES.empty(), folder / "end.parquet", CANDIDATES, provenance=source)
    made = {name: folder / f"{name}.parquet" for name in ("corpus", "queries", "qrels")}
    read = {"documents": folder / "documents.parquet", "candidates": folder / "end.parquet"}
    with pytest.raises(InputError, match="no candidate query is left") as refused:
        jobs.run(run_assemble, read, made, length_tokenizer="words")
    steps = "entered -> kept of each step: judge_segment 2 -> 0 segments (malformed 2"
    assert steps in str(refused.value)
    assert f"See the rows in {folder}/*.dropped.parquet" in str(refused.value)
    jobs.run(run_assemble, read, made, length_tokenizer="words", on_empty="drop")
    heights = {name: pl.read_parquet(path).height for name, path in made.items()}
    assert heights == {"corpus": 2, "queries": 0, "qrels": 0}


def refusing(n_refused):
    """Ask like `ask_all`, but let the server refuse the first requests."""
    real = stage_module.ask_all

    def asked(requests, llm, *, on_outcome, **options):
        requests = list(requests)
        for item in requests[:n_refused]:
            chain = RequestChain([item.id], item.request, 0)
            on_outcome(chain.failure_outcome(TryFailedError("http_451", "no", action="reject")))
        return real(requests[n_refused:], llm, on_outcome=on_outcome, **options)

    return asked


def test_a_server_that_refuses_every_request_fails_the_job(folder, monkeypatch):
    monkeypatch.setattr(stage_module, "ask_all", refusing(4))
    with pytest.raises(InputError, match=r"4 of 4 requests .*http_451 4") as told:
        ask(folder)
    assert "run again" not in str(told.value)
    assert "would refuse these requests again" in str(told.value)


def test_one_request_refused_among_others_is_an_outcome(folder, monkeypatch):
    monkeypatch.setattr(stage_module, "ask_all", refusing(1))
    assert ask(folder)["status"].to_list() == ["failed", "ok", "ok", "ok"]
