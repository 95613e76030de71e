"""The table of a config's work: counts times means by the config, and what a run measured."""

import polars as pl
import pytest
from language_tables import write_domains, write_texts

from psibench.config.paths import PROMPTS
from psibench.generate.benchmarks import places_of
from psibench.generate.sample import run_sample
from psibench.generate.sampling import sample_params
from psibench.llm.prompts import load_prompt
from psibench.plan import jobs
from psibench.plan.config import load_config
from psibench.plan.measured import Measured
from psibench.plan.plan import make_plan
from psibench.plan.work import summed, wall_minutes, work_table
from psibench.tables import Provenance
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.io import each_domain

MADE = Provenance("gather", 1)
REPLY = {"reply_format": "json_object", "tokenizer": "words"}
LLMS = {
    "paid": {
        "backend": "openai",
        "model": "paid-1",
        "sampling": {"max_output_tokens": 1000},
        "thinks": True,
        **REPLY,
    },
    "here": {
        "backend": "vllm",
        "model": "open-10b",
        "asking": {"concurrency": 100},
        "vllm": {"parameters_b": 10, "active_parameters_b": 1, "gpus": 2},
        **REPLY,
    },
}
PRICES = {"paid-1": {"input_usd": 1.0, "output_usd": 10.0, "as_of": "2026-01-31"}}
RERANKERS = {
    "sized": {
        "backend": "cross-encoder",
        "checkpoint": "owner/name",
        "max_tokens": 512,
        "parameters_m": 150,
        "embedding_parameters_m": 50,
    }
}
# 3,000 documents of 0 to 100 tokens and 1,000 of 100 to 300: 350,000 tokens, 87.5 each. Half of
# them are asked for two questions: 4,000 candidates.
POSIR = {
    "recipe": "posir",
    "source": {"kind": "hub", "name": "owner/name"},
    "sample": {"unit": "tokens", "edges": [0, 100, 300], "shares": [3, 1], "n_documents": 4000},
    "propose_questions": {"llm": "paid", "share": 0.5, "n_questions": 2},
    "locate_span": {"llm": "paid", "prompt": "locate.md"},
    "verify": {"rerankers": ["sized"]},
    "false_negatives": {
        "protocol": "posir",
        "recall": {"model": "bm25", "top_k": 100},
        "rerankers": ["sized"],
    },
    "translate": {
        "llm": "here",
        "prompt": "translate.md",
        "to": ["deu-Latn"],
        "max_part_tokens": 100,
    },
}
LOCATE = """---
task: locate_span
variables: [document, question, answer]
response: {type: object, properties: {quote: {type: string}}, required: [quote], additionalProperties: false}
reply_example: {quote: one two three}
---
## user
{{ document }} {{ question }} {{ answer }}
"""  # noqa: E501
TRANSLATE = """---
task: translate
variables: [text, kind, source_language, target_language]
response: {type: object, properties: {translation: {type: string}}, required: [translation], additionalProperties: false}
---
## user
{{ text }} {{ kind }} {{ source_language }} {{ target_language }}
"""  # noqa: E501


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "locate.md").write_text(LOCATE)
    (tmp_path / "translate.md").write_text(TRANSLATE)
    return tmp_path


def plan_of(section=POSIR, **changes):
    given = {
        "benchmarks": {"mine": section},
        "models": ["bm25"],
        "llms": LLMS,
        "prices": PRICES,
        "rerankers": RERANKERS,
        "length_tokenizer": "words",
        "encoding": {"gpu_tflops": 100, "gpu_gb_per_s": 1000},
    }
    return make_plan(*load_config(given | changes))


def rows_of(folder, section=POSIR, **changes):
    """The rows of a config by stage and language; of its English ones by stage alone."""
    table = work_table(Measured(plan_of(section, **changes), folder / "results"))
    found = {}
    for row in table.to_dicts():
        found[row["stage"], row["language"]] = row
        if row["language"] == "eng-Latn":
            found[row["stage"]] = row
    return found


def ends(row, name):
    return row[f"{name}_low"], row[f"{name}_high"]


@pytest.mark.parametrize(
    ("thinks", "most", "basis"),
    [(True, 4_000_000, "example, thoughts"), (False, 34_667, "example")],
)
def test_a_task_has_its_items_tokens_and_money_with_a_range(thinks, most, basis, folder):
    found = rows_of(folder, llms=LLMS | {"paid": LLMS["paid"] | {"thinks": thinks}})
    locate = found["locate_span"]
    assert (ends(locate, "items"), locate["answered"], locate["basis"]) == ((4000, 4000), 0, "plan")
    # A template of 42 characters, 10.5 tokens; 87.5 of the document, 22 each of question
    # and answer: 142 in 4,000 prompts, with five characters a token or with three.
    assert ends(locate, "tokens_in") == (454_400, 757_333)
    # {"quote": "one two three"} are 26 characters; with thoughts 1,000 tokens at most.
    low = 4000 * 26 / 5
    assert ends(locate, "tokens_out") == (low, most)
    assert locate["output_basis"] == basis
    assert locate["usd_low"] == pytest.approx((454_400 + 10 * low) / 1e6)
    # 80 bytes and 1.6 for each token of the reply alone: thoughts are not kept.
    assert locate["store_bytes"] == pytest.approx(4000 * 80 + low * 1.6)
    assert ends(found["propose_questions"], "items") == (2000, 2000)


def test_rerankers_score_all_candidates_then_what_filters_leave(folder):
    found = rows_of(folder)
    parts, pairs = found["score_parts"], found["score_pairs"]
    # With and without its span, 87.5 + 22 tokens: 876,000; 100 M parameters, two operations each.
    assert (ends(parts, "items"), parts["jobs"]) == ((8000, 8000), 1)
    assert ends(parts, "tokens_in") == (876_000, 876_000)
    assert parts["gpu_minutes_high"] == pytest.approx(876_000 * 2e8 / 1e14 / 60)
    # A tenth to a half of 4,000 candidates, a hundred documents each; 32 bytes of each score.
    assert ends(pairs, "items") == (40_000, 200_000)
    assert ends(pairs, "gpu_minutes") == pytest.approx((0.146, 0.73))
    assert pairs["store_bytes"] == 6_400_000
    deep = POSIR["false_negatives"] | {"recall": {"model": "bm25", "top_k": 1000}}
    assert "recall" not in found  # the raw view's run is deep enough
    recall = rows_of(folder, POSIR | {"false_negatives": deep})["recall"]
    # 400 to 2,000 queries, 16 bytes of each of a thousand documents.
    assert (ends(recall, "items"), recall["results_bytes"]) == ((400, 2000), 32_000_000)


def test_the_range_holds_what_the_embedded_default_really_asks(folder, monkeypatch):
    """docs/default.md: of 1,440 candidates rerankers leave 642, grades 641, judges 561."""
    plan = make_plan(*load_config({}))
    table = work_table(Measured(plan, folder / "results"))
    rows = {(row["stage"], row["language"]): row for row in table.to_dicts()}
    for stage, language, n in (
        ("choose_configuration", "eng-Latn", 240),
        ("generate_positional_query", "eng-Latn", 1440),
        ("grade_first", "eng-Latn", 642),
        ("grade_rest", "eng-Latn", 2 * 642),
        ("judge_1", "eng-Latn", 641 - 561),
        ("search", "eng-Latn", 561),
        ("search", "qps-Latn", 535),
        ("search", "qps-Arab", 531),
        ("translate", "qps-Latn", 561 + 240),
    ):
        low, high = ends(rows[stage, language], "items")
        assert low <= n <= high, (stage, language)


def test_jobs_are_cut_and_timed_by_the_minutes_of_the_table(folder):
    plan = plan_of(POSIR | {"sample": POSIR["sample"] | {"n_documents": 40_000_000}})
    (row,) = work_table(Measured(plan, folder)).filter(stage="score_pairs").to_dicts()
    # A half of 40 M candidates with 100 documents each: 7,300 minutes, 120 in each job.
    assert row["gpu_minutes_high"] == pytest.approx(7300)
    assert (row["jobs"], row["job_minutes"]) == (61, pytest.approx(7300 / 61))
    portions = plan.portions("mine", "eng-Latn", "false_negatives")
    assert (portions[0], portions[-1], len(portions)) == ("/1-of-61", "/61-of-61", 61)
    asked = jobs.scoring_minutes(plan, "mine", "eng-Latn", "sized", of="false_negatives")
    assert asked == max(240, int(1.5 * 7300 / 61))


N_PARTS = 3000 + 1000 * 2.5
N_SOURCE = 350_000
"""Documents of one part and of two and a half, their tokens; then 400 to 2,000 questions."""


def test_a_served_model_needs_the_time_to_read_its_prompts_and_its_weights(folder):
    row = rows_of(folder)["translate", "deu-Latn"]
    assert ends(row, "items") == (N_PARTS + 400, N_PARTS + 2000)
    # A template of 65 characters in each, three in a token; 22 tokens of each question.
    n_texts = N_SOURCE + 2000 * 22
    n_in = 4 / 3 * ((N_PARTS + 2000) * 65 / 4 + n_texts)
    assert row["tokens_in_high"] == pytest.approx(n_in, abs=1)
    n_out = 1.67 * n_texts  # PosIR, table 4, at most
    assert row["tokens_out_high"] == pytest.approx(n_out, abs=1)
    # Two operations for each of 1e9 active parameters; 20 GB of weights for a hundred tokens.
    seconds = n_in * 2e9 / 1e14 + n_out * 20 / 1000 / 100
    assert row["gpu_minutes_high"] == pytest.approx(seconds / 60, rel=1e-4)
    assert (row["gpus"], row["job_minutes"]) == (2, pytest.approx(seconds / 120, rel=1e-4))
    assert (row["usd_high"], row["output_basis"]) == (None, "translation")


@pytest.mark.parametrize(
    ("changes", "writing_s"),
    [
        ({"vllm": {"tokens_per_s": 4000}}, 2 / 4000),  # of one server: as measured
        ({"asking": {"concurrency": 1}}, 2 / 1000),  # 1 G parameters of each request, 10 G in all
        ({"asking": {"concurrency": 4}}, 8 / 1000 / 4),
        ({"asking": {"concurrency": 10}}, 20 / 1000 / 10),
    ],
)
def test_a_served_model_writes_as_measured_or_as_weights_are_read(changes, writing_s, folder):
    here = {**LLMS["here"], **changes}
    here["vllm"] = LLMS["here"]["vllm"] | changes.get("vllm", {})
    row = rows_of(folder, llms=LLMS | {"here": here})["translate", "deu-Latn"]
    seconds = row["tokens_in_high"] * 2e9 / 1e14 + row["tokens_out_high"] * writing_s
    assert row["gpu_minutes_high"] == pytest.approx(seconds / 60, rel=1e-4)


def test_a_model_served_on_a_cpu_has_no_gpus_and_hours_once_its_speed_is_known(folder):
    def row(**vllm):
        entry = LLMS["here"] | {"vllm": {"parameters_b": 10, "gpus": 0} | vllm}
        return rows_of(folder, llms=LLMS | {"here": entry})["translate", "deu-Latn"]

    found = row()
    assert (found["gpus"], found["gpu_minutes_high"], found["job_minutes"]) == (0, None, None)
    minutes = found["tokens_out_high"] / 4000 / 60
    assert row(tokens_per_s=4000)["job_minutes"] == pytest.approx(minutes, rel=1e-4)


def test_an_embedded_reranker_is_measured_and_bm25_computes_nothing(folder):
    panel = ["embedded-bm25", "embedded-minilm-cosine"]
    plan = plan_of(POSIR | {"verify": {"rerankers": panel}})
    bm25, cosine = work_table(Measured(plan, folder)).filter(stage="score_parts").to_dicts()
    assert ends(bm25, "gpu_minutes") == (0, 0)
    # all-MiniLM-L6-v2 has 22.7 M parameters, 30,522 x 384 of them input embeddings.
    active = 22.7e6 - 30_522 * 384
    minutes = 876_000 * 2 * active / 1e14 / 60
    assert cosine["gpu_minutes_high"] == pytest.approx(minutes, rel=0.01)


def test_an_encoder_served_on_a_cpu_is_counted_in_cpu_hours(folder):
    entry = {"backend": "vllm", "checkpoint": "owner/name", "max_tokens": 512, "parameters_m": 100}
    rows = []
    for gpus in (1, 0):
        own = {"m": entry | {"vllm": {"gpus": gpus}}}
        plan = plan_of(POSIR, models=["m"], registry=own)
        row = work_table(Measured(plan, folder)).filter(stage="encode", by="m").row(0, named=True)
        rows.append(row)
    on_gpu, on_cpu = rows
    assert (on_gpu["gpus"], on_cpu["gpus"], on_cpu["gpu_minutes_high"]) == (1, 0, None)
    assert on_cpu["cpu_minutes"] == on_gpu["cpu_minutes"] == on_cpu["job_minutes"]


def test_a_model_served_elsewhere_counts_its_gpu_hours_where_it_says_its_size(folder):
    llms = LLMS | {"here": LLMS["here"] | {"backend": "openai", "base_url": "http://node7:8000/v1"}}
    row = rows_of(folder, llms=llms)["translate", "deu-Latn"]
    assert row["gpu_minutes_high"] > 0
    assert (row["gpus"], row["job_minutes"]) == (0, None)  # not of the jobs that ask it


# What a run measured


def build(folder):
    return folder / "results" / "mine" / "build" / "eng-Latn"


def write_usage(folder, task, n_items, *, model="paid-1", shard=None):
    """Write what a task used: 100 tokens in and 40 out for each item."""
    prompt = load_prompt("locate.md" if task == "locate_span" else PROMPTS / f"{task}.md")
    row = dict.fromkeys(LLM_USAGE.column_names, 0) | {
        **{"stage": task, "llm": "paid", "model": model, "backend": "openai"},
        **{"n_items": n_items, "n_ok": n_items, "n_requests": n_items, "prompt_hash": prompt.hash},
        **{"input_tokens": 100 * n_items, "output_tokens": 40 * n_items},
    }
    path = build(folder) / (f"{task}/{shard}" if shard else task)
    frame = pl.DataFrame([row], schema=LLM_USAGE.empty().schema)
    write_domains({"general": frame}, f"{path}.usage.parquet", LLM_USAGE, provenance=MADE)


def write_flow(folder, step, entered, kept):
    rows = [(step, 1, "questions", entered, kept, entered - kept)]
    frame = pl.DataFrame(rows, schema=FLOW.empty().schema, orient="row")
    path = build(folder) / f"{step}.flow.parquet"
    write_domains({"general": frame}, path, FLOW, provenance=MADE)


def test_a_run_s_tables_take_the_place_of_guesses(folder):
    write_usage(folder, "propose_questions", 2100)
    write_usage(folder, "locate_span", 4100)
    write_flow(folder, "locate_span", 4100, 3900)
    write_flow(folder, "verify", 3900, 1300)
    found = rows_of(folder)
    locate, pairs = found["locate_span"], found["score_pairs"]
    assert (ends(locate, "items"), locate["answered"]) == ((4100, 4100), 4100)
    assert (ends(locate, "usd"), locate["basis"]) == ((0, 0), "tables")
    # Of 4,000 candidates the last task made 3,900 of 4,100, and a third was left: no range.
    n = 4000 * 3900 / 4100
    assert ends(found["score_parts"], "items") == (round(2 * n), round(2 * n))
    assert ends(pairs, "items") == (round(100 * n / 3), round(100 * n / 3))
    # Another model is asked again, for what the last one used.
    write_usage(folder, "locate_span", 4100, model="paid-0")
    again = rows_of(folder)["locate_span"]
    assert (ends(again, "items"), again["answered"]) == ((4100, 4100), 0)
    assert ends(again, "tokens_in") == (410_000, 410_000)
    assert ends(again, "tokens_out") == (164_000, 164_000)
    assert again["output_basis"] == "run"


def test_of_a_task_under_way_the_shards_that_are_done_count(folder):
    write_usage(folder, "propose_questions", 1000, shard="1-of-2")
    row = rows_of(folder, POSIR | {"shards": 2})["propose_questions"]
    assert (ends(row, "items"), row["answered"]) == ((2000, 2000), 1000)
    assert ends(row, "tokens_out") == (40_000, 40_000)


def text_files(folder, n):
    """Write ``n`` texts of 60, 61, ... words; return their source."""
    (folder / "texts").mkdir()
    for i in range(n):
        text = " ".join(f"w{i}x{j}" for j in range(60 + i))
        (folder / "texts" / f"{i}.txt").write_text(text)
    return {"kind": "files", "paths": ["texts"]}


def test_a_trial_run_measures_for_a_larger_sample(folder):
    """Its shares and means count, times the documents of today; its answers are of others."""
    small = POSIR | {"source": text_files(folder, 4)}
    small["sample"] = {"unit": "words", "edges": [10, 500], "n_documents": 4}
    place, section = places_of(plan_of(small).benchmarks["mine"].section)[0], small["sample"]
    names = ("documents", "sampling", "dropped")
    sample = plan_of(small).benchmarks["mine"].generated.sample
    paths = {name: build(folder) / f"{name}.parquet" for name in names}
    with each_domain(["general"], paths) as (one,):
        params = sample_params(place.source, None, sample, length_tokenizer="words")
        run_sample(params, language="eng-Latn", domain="general", **one.outputs)
    write_usage(folder, "propose_questions", 4)  # of all four, where a half was planned
    write_usage(folder, "locate_span", 10)
    write_flow(folder, "locate_span", 10, 9)
    write_flow(folder, "verify", 9, 3)
    now = rows_of(folder, small)
    assert (ends(now["locate_span"], "items"), now["locate_span"]["answered"]) == ((10, 10), 10)
    later = rows_of(folder, small | {"sample": section | {"n_documents": 400}})
    # 200 of 400 documents are asked two questions each, of which 9 of 10 are, and a third is left.
    locate = later["locate_span"]
    assert (ends(locate, "items"), locate["answered"]) == ((400, 400), 0)
    assert ends(locate, "tokens_out") == (16_000, 16_000)
    assert ends(later["score_pairs"], "items") == (12_000, 12_000)


def test_a_corpus_that_is_built_is_counted_and_so_are_its_queries(folder):
    documents = {"d1": "one two three", "d2": "four " * 300}
    write_texts(folder / "results/mine/data/eng-Latn/general", documents, {"q": "Which one of it?"})
    found = rows_of(folder, models=["all-minilm-l6-v2"])
    encode, search = found["encode"], found["search"]
    assert (encode["basis"], ends(encode, "items")) == ("tables", (3, 3))
    # 3 tokens, 300 cut at 256, and 16 characters of a query at four a token.
    assert encode["tokens_in_high"] == 3 + 256 + 4
    assert encode["store_bytes"] == 3 * 384 * 4
    assert (ends(search, "items"), search["results_bytes"]) == ((1, 1), 100 * 16)


def test_what_nobody_can_tell_is_null_and_said_so(folder):
    section = {"recipe": "known_item", "source": {"kind": "hub", "name": "owner/name"}}
    found = rows_of(folder, section, models=["all-minilm-l6-v2"])
    assert {row["basis"] for row in found.values()} == {"unknown"}
    assert ends(found["encode"], "items") == (None, None)


def test_sums_are_of_what_is_known_and_the_bottleneck_is_the_longest_stage(folder):
    rows = [
        {"stage": "encode", "by": "a", "jobs": 4, "gpus": 1, "job_minutes": 30.0},
        {"stage": "encode", "by": "b", "jobs": 1, "gpus": 1, "job_minutes": 50.0},
        {"stage": "ask", "by": "m", "jobs": 2, "gpus": 0, "job_minutes": 40.0},
        {"stage": "sample", "by": None, "jobs": 1, "gpus": 0, "job_minutes": None},
    ]
    minutes = [120.0, 50.0, None, None]
    table = pl.DataFrame(
        [row | {"gpu_minutes_high": n} for row, n in zip(rows, minutes, strict=True)]
    )
    # 170 GPU minutes on two GPUs; with ten of each no shorter than the longest job.
    assert wall_minutes(table, jobs=10, gpus=2).rows() == [("encode", 85.0), ("ask", 40.0)]
    assert wall_minutes(table, jobs=10, gpus=10).rows() == [("encode", 50.0), ("ask", 40.0)]
    assert wall_minutes(table, jobs=1, gpus=1).rows() == [("encode", 170.0), ("ask", 80.0)]
    whole = work_table(Measured(plan_of(), folder))
    (total,) = summed(whole.with_columns(all=pl.lit(True)), ["all"]).to_dicts()
    assert total["usd_low"] == pytest.approx(whole["usd_low"].sum())
    assert total["unknown"] == 0
