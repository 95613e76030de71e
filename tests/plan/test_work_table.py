"""The table of a config's work: counts times means by the config, and what a run measured."""

import os
from pathlib import Path

import polars as pl
import pytest
from jobs import run
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
from psibench.plan.work import encoding_jobs, portions, work_table
from psibench.tables import Provenance
from psibench.tables.build_schemas import FLOW, LLM_USAGE

REPLY = {"reply_format": "json_object"}
LLMS = {
    "paid": {"backend": "openai", "model": "paid-1", **REPLY},
    "here": {
        "backend": "vllm",
        "model": "open-10b",
        "asking": {"concurrency": 100},
        "vllm": {"parameters_b": 10, "active_parameters_b": 1, "gpus": 2},
        **REPLY,
    },
}
RERANKER = {"backend": "cross-encoder", "checkpoint": "owner/name", "max_tokens": 512}
GIVEN = {
    "models": ["bm25"],
    "llms": LLMS,
    "prices": {"paid-1": {"input_usd": 1.0, "output_usd": 10.0, "as_of": "2026-01-31"}},
    "rerankers": {"sized": RERANKER | {"parameters_m": 150, "embedding_parameters_m": 50}},
    "length_tokenizer": "words",
    "encoding": {"gpu_tflops": 100, "gpu_gb_per_s": 1000, "minutes_per_shard": 30},
}
# 3,000 documents of 0 to 100 tokens and 1,000 of 100 to 300: 350,000 tokens, 87.5 each. Half of
# them are asked for two questions: 4,000 candidates.
SAMPLE = {"unit": "tokens", "edges": [0, 100, 300], "shares": [3, 1], "n_documents": 4000}
ASKING = {
    "recipe": "posir",
    "source": {"kind": "hub", "name": "owner/name"},
    "sample": SAMPLE,
    "propose_questions": {"llm": "paid", "share": 0.5, "n_questions": 2},
    "locate_span": {"llm": "paid", "prompt": "locate.md"},
}
POSIR = ASKING | {
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
    encoding = GIVEN["encoding"] | changes.pop("encoding", {})
    given = GIVEN | {"benchmarks": {"mine": section}, "encoding": encoding}
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


def encoded(folder, section=ASKING, *, language="eng-Latn", encoding=None, **fields):
    """The row of encoding a section's texts by a model."""
    entry = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 4096}
    own = {"m": {name: v for name, v in (entry | fields).items() if v is not None}}
    found = rows_of(folder, section, models=["m"], registry=own, encoding=encoding or {})
    return found["encode", language]


@pytest.mark.parametrize(
    ("fields", "tokens", "vectors"),
    [
        ({}, 350_000, 4000),
        ({"max_tokens": 100}, 3000 * 50 + 1000 * 100, 4000),
        ({"scoring": "maxsim"}, 350_000, 350_000 + 4000 * 21),  # one per token, of 22 of a query
        # Windows of 100, 80 apart. Of 1,000 documents of 100 to 300 tokens three eighths have two,
        # three eighths three and a quarter four; what overlaps is read twice.
        ({"windows": {"tokens": 100, "overlap": 20}}, 350_000 + 20 * 1875, 3000 + 2875),
        ({"windows": {"tokens": 100, "overlap": 20, "pool": "mean"}}, 350_000 + 20 * 1875, 4000),
        # The first and the last 100 tokens.
        (
            {"windows": {"tokens": 100, "overlap": 20, "keep": "head-and-tail"}},
            3000 * 50 + 1000 * 175,
            2 * 4000,
        ),
        ({"late_chunking": {"tokens": 100, "overlap": 20}}, 350_000, 3000 + 2875),
    ],
)
def test_a_model_reads_and_stores_what_its_entry_says(fields, tokens, vectors, folder):
    row = encoded(folder, dim=384, **fields)
    assert ends(row, "items") == (8000, 8000)
    assert row["tokens_in_high"] == tokens + 4000 * 22
    assert row["store_bytes"] == (vectors + 4000) * 384 * 4
    half = encoded(folder, dim=384, encoding={"storage": "float16"}, **fields)
    assert half["store_bytes"] == row["store_bytes"] / 2


@pytest.mark.parametrize(
    ("fields", "n_bytes"),
    [
        ({"backend": "colbert", "query_tokens": 32, "dim": 128}, (350_000 + 4000 * 32) * 128 * 4),
        ({"backend": "sparse-encoder", "max_terms": 100}, 8000 * 100 * 3 * 4),
        ({"backend": "sparse-encoder", "dim": 384}, None),
        ({"dim": 384}, 8000 * 384 * 4),
        ({"dim": 384, "dimensions": 64}, 8000 * 64 * 4),
        ({}, None),  # no dim
    ],
)
def test_kinds_with_vectors_of_their_own_are_counted_by_them(fields, n_bytes, folder):
    assert encoded(folder, **fields)["store_bytes"] == n_bytes


@pytest.mark.parametrize(
    ("unit", "language", "tokens"),
    [
        ("words", "eng-Latn", 350_000 * 4 / 3),
        ("chars", "eng-Latn", 350_000 / 4),
        ("chars", "zho-Hans", 350_000 / 1.5),
    ],
)
def test_lengths_become_tokens(unit, language, tokens, folder):
    section = ASKING | {"language": language, "sample": SAMPLE | {"unit": unit}}
    row = encoded(folder, section, language=language)
    assert row["tokens_in_high"] - 4000 * 22 == pytest.approx(tokens, abs=1)


def test_domains_of_a_language_add_up_and_translations_are_longer(folder):
    places = [("law", "eng-Latn"), ("medicine", "eng-Latn"), ("law", "zho-Hans")]
    corpora = [{"domain": d, "language": lang, "source": ASKING["source"]} for d, lang in places]
    section = ASKING | {"corpora": corpora, "translate": POSIR["translate"]}
    del section["source"]
    english, chinese, german = (
        encoded(folder, section, language=language)
        for language in ("eng-Latn", "zho-Hans", "deu-Latn")
    )
    assert [row["items_high"] for row in (english, chinese, german)] == [16_000, 8000, 16_000]
    queries = 8000 * 22
    assert german["tokens_in_high"] - queries == 1.5 * (english["tokens_in_high"] - queries)


@pytest.mark.parametrize(("domains", "n"), [(["law", "medicine"], 2), (["law"], 1)])
def test_a_release_has_the_papers_numbers(domains, n, folder):
    section = {"recipe": "posir_release", "source": {"path": "owner/name"}, "domains": domains}
    section |= {"languages": ["eng-Latn", "deu-Latn"]}
    english = encoded(folder, section)
    assert english["items_high"] == n * (55_902 + 1_360)
    # Bins of 256 tokens, 3:3:3:3:2:2:2:2: (3 x 2,048 + 2 x 6,144) / 20 = 921.6 on average.
    n_tokens = n * (921.6 * 55_902 + 22 * 1_360)
    assert english["tokens_in_high"] == pytest.approx(n_tokens, rel=1e-4)
    german = encoded(folder, section, language="deu-Latn")
    mean = german["tokens_in_high"] / n / 55_902
    assert mean == pytest.approx(1413, rel=0.03)  # as the paper's averages have it


# What jobs are cut by

LARGE = ASKING | {"sample": {"unit": "tokens", "edges": [0, 1000], "n_documents": 12_000_000}}
# 12 M documents of 500 tokens and 12 M queries of 22 are 6.264e9 tokens; 2 x 1e8 operations each
# are 1.2528e18; at 1e14 a second 12,528 s, 208.8 minutes.


@pytest.mark.parametrize(
    ("fields", "encoding", "minutes", "n_jobs"),
    [
        ({}, {}, 208.8, 7),  # 208.8 / 30 = 6.96
        ({}, {"gpu_tflops": 200}, 104.4, 4),
        ({}, {"gpu_tflops": 10}, 2088, 64),
        ({}, {"minutes_per_shard": 10}, 208.8, 20),  # 21 would be below ten minutes
        ({}, {"shards": 5}, 208.8, 5),
        ({"embedding_parameters_m": 25}, {}, 0.75 * 208.8, 6),
        ({"parameters_m": None}, {}, None, 1),
        ({"backend": "static-embeddings", "max_tokens": None}, {}, 0, 1),
    ],
)
def test_encodings_are_cut_by_two_operations_per_parameter_and_token(
    fields, encoding, minutes, n_jobs, folder
):
    row = encoded(folder, LARGE, encoding=encoding, **({"parameters_m": 100} | fields))
    assert row["gpu_minutes_high"] == (minutes if minutes is None else pytest.approx(minutes))
    if minutes:  # cores of 60 GFLOPS
        per_core = (encoding.get("gpu_tflops") or 100) * 1000 / 60
        assert row["cpu_minutes"] == pytest.approx(minutes * per_core / os.cpu_count())
    assert row["jobs"] == n_jobs


def test_a_job_asks_for_half_more_minutes_than_planned_and_four_hours_at_least():
    entry = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 2048}
    given = {"models": ["m"], "encoding": {"shards": 2}}
    given |= {"registry": {"m": entry | {"parameters_m": 1000}}}
    at = {"benchmark": "mine", "model": "m", "lang": "eng-Latn"}
    large, small = plan_of(LARGE, **given), plan_of(ASKING, **given)
    assert jobs.encode_minutes(large, **at) == 1.5 * 2088 / 2
    assert jobs.encode_minutes(small, **at) == 240
    assert [jobs.threads(plan, "mine", "eng-Latn") for plan in (large, small)] == [8, 8]
    unknown = plan_of({"recipe": "known_item", "source": ASKING["source"]}, **given)
    assert (jobs.encode_minutes(unknown, **at), jobs.threads(unknown, "mine", "eng-Latn")) == (
        240,
        2,
    )
    few = plan_of(ASKING | {"sample": SAMPLE | {"n_documents": 100}}, **given)
    assert jobs.threads(few, "mine", "eng-Latn") == 1


def test_one_view_alone_is_cut_into_shards():
    entry = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 2048}
    given = {"models": ["bm25", "m"], "registry": {"m": entry | {"parameters_m": 100}}}
    plan = plan_of(POSIR | {"sample": LARGE["sample"], "tiny": {}}, **given)
    for language, first in (("eng-Latn", "mine-raw"), ("deu-Latn", "mine")):
        counts = {name: encoding_jobs(plan, name, "m", language) for name in plan.named}
        assert [name for name, n in counts.items() if n > 1] == [first]


def test_scores_of_a_filter_are_cut_by_their_minutes(folder):
    section = POSIR | {"sample": SAMPLE | {"n_documents": 40_000_000}}
    plan = plan_of(section, encoding={"minutes_per_shard": 120})
    (row,) = work_table(Measured(plan, folder)).filter(stage="score_pairs").to_dicts()
    # A half of 40 M candidates with 100 documents each: 7,300 minutes, 120 in each job.
    assert row["gpu_minutes_high"] == pytest.approx(7300)
    assert (row["jobs"], row["job_minutes"]) == (61, pytest.approx(7300 / 61))
    named = portions(plan, "mine", "eng-Latn", "false_negatives")
    assert (named[0], named[-1], len(named)) == ("/1-of-61", "/61-of-61", 61)
    # In two parts each half is cut by itself: 3,650 minutes.
    corpora = [{"domain": name, "source": section["source"]} for name in ("law", "medicine")]
    halves = {"corpora": corpora, "source": None, "parts": 2}
    halves["sample"] = SAMPLE | {"n_documents": 20_000_000}
    parted = plan_of(section | halves, encoding={"minutes_per_shard": 120})
    (row,) = work_table(Measured(parted, folder)).filter(stage="score_pairs").to_dicts()
    assert row["jobs"] == 2 * 31
    assert portions(parted, "mine", "eng-Latn", "false_negatives")[-1] == "/31-of-31"
    at = {"benchmark": "mine", "lang": "eng-Latn", "reranker": "sized", "of": "false_negatives"}
    assert jobs.scoring_minutes(plan, **at) == max(240, int(1.5 * 7300 / 61))
    unsized = plan_of(rerankers={"sized": RERANKER})
    assert jobs.scoring_minutes(unsized, **at) == 1440
    assert portions(unsized, "mine", "eng-Latn", "false_negatives") == [""]


# Rerankers and language models


def test_rerankers_score_all_candidates_then_what_filters_leave(folder):
    panel = ["sized", "embedded-bm25", "embedded-minilm-cosine"]
    found = rows_of(folder, POSIR | {"verify": {"rerankers": panel[:1]}})
    parts, pairs = found["score_parts"], found["score_pairs"]
    # With and without its span, 87.5 + 22 tokens: 876,000; 100 M parameters, two operations each.
    assert (ends(parts, "items"), parts["jobs"]) == ((8000, 8000), 1)
    assert ends(parts, "tokens_in") == (876_000, 876_000)
    assert parts["gpu_minutes_high"] == pytest.approx(876_000 * 2e8 / 1e14 / 60)
    # A tenth to a half of 4,000 candidates, a hundred documents each; 32 bytes of each score.
    assert ends(pairs, "items") == (40_000, 200_000)
    assert ends(pairs, "gpu_minutes") == pytest.approx((0.146, 0.73))
    assert pairs["store_bytes"] == 6_400_000
    plan = plan_of(POSIR | {"verify": {"rerankers": panel}})
    _, bm25, cosine = work_table(Measured(plan, folder)).filter(stage="score_parts").to_dicts()
    assert ends(bm25, "items") == (800, 8000)  # what is decided is not scored again
    assert ends(bm25, "gpu_minutes") == (0, 0)
    # all-MiniLM-L6-v2 has 22.7 M parameters, 30,522 x 384 of them input embeddings.
    minutes = 876_000 * 2 * (22.7e6 - 30_522 * 384) / 1e14 / 60
    assert cosine["gpu_minutes_high"] == pytest.approx(minutes, rel=0.01)


def test_a_training_reads_what_is_left_or_its_budget_of_each_bin_if_that_is_less(folder):
    base = {"checkpoint": "owner/name", "max_tokens": 256, "pooling": "mean", "parameters_m": 23}

    def items(**more):
        training = {"benchmark": "mine", "settings": {"epochs": 2}, "bases": {"net": base}, **more}
        found = rows_of(folder, ASKING, training={"t": training})
        return ends(found["train"], "items")

    everything = items()  # in five bins of length
    assert everything[1] > 2 * 5 * 30
    assert items(budget=30) == (2 * 5 * 30, 2 * 5 * 30)
    assert items(budget=10**6) == everything


def test_a_task_has_its_items_tokens_and_money_with_a_range(folder):
    found = rows_of(folder)
    locate = found["locate_span"]
    assert (ends(locate, "items"), locate["answered"], locate["basis"]) == ((4000, 4000), 0, "plan")
    # A template of 42 characters, 10.5 tokens; 87.5 of the document, 22 each of question and
    # answer: 142 in 4,000 prompts, and replies of 48, with six tenths to eight fifths of that.
    assert ends(locate, "tokens_in") == pytest.approx((0.6 * 568_000, 1.6 * 568_000))
    assert ends(locate, "tokens_out") == pytest.approx((0.6 * 192_000, 1.6 * 192_000))
    assert locate["usd_low"] == pytest.approx(0.6 * (568_000 + 10 * 192_000) / 1e6)
    assert locate["store_bytes"] == pytest.approx(4000 * (480 + 4 * 1.6 * 48))
    assert ends(found["propose_questions"], "items") == (2000, 2000)
    thinking = LLMS["paid"] | {"thinks": True, "sampling": {"max_output_tokens": 1000}}
    row = rows_of(folder, llms=LLMS | {"paid": thinking})["locate_span"]
    assert ends(row, "tokens_out") == pytest.approx((0.6 * 192_000, 4_000_000))
    assert row["store_bytes"] == locate["store_bytes"]  # thoughts are not kept


def test_the_range_holds_what_the_embedded_default_really_asks(folder):
    """A run of 2026-11: items of each task, tokens in and out of them all."""
    plan = make_plan(*load_config({}))
    table = work_table(Measured(plan, folder / "results"))
    rows = {(row["stage"], row["language"]): row for row in table.to_dicts()}
    for stage, language, *counted in (
        ("choose_configuration", "eng-Latn", 240, 190_500, 9_421),
        ("generate_positional_query", "eng-Latn", 1440, 847_838, 61_591),
        ("grade_first", "eng-Latn", 642, 140_528, 4_494),
        ("grade_rest", "eng-Latn", 1284, 281_405, 8_988),
        ("audit", "eng-Latn", 3363, 674_475, 30_267),
        ("judge_1", "eng-Latn", 190, 90_573, 1_330),
        ("judge_3", "eng-Latn", 83, 42_575, 581),
        ("search", "eng-Latn", 561),
        ("translate", "qps-Latn", 866, 239_998, 96_231),
        ("translate", "qps-Arab", 866, 239_998, 92_950),
        ("judge_refusals", "qps-Arab", 12, 2_482, 81),
        ("judge_translation", "qps-Latn", 18),
        ("search", "qps-Latn", 535),
        ("search", "qps-Arab", 531),
    ):
        for name, n in zip(("items", "tokens_in", "tokens_out"), counted, strict=False):
            low, high = ends(rows[stage, language], name)
            assert low <= n <= high, (stage, language, name)
    # A query of 22 tokens and a third of a document: 1,656 characters on average, four a token.
    grade, prompt = rows["grade_first", "eng-Latn"], load_prompt(PROMPTS / "grade_relevance.md")
    template = sum(len(text) for _, text in prompt.messages) / 4
    each = grade["tokens_in_high"] / grade["items_high"]
    assert each == pytest.approx(1.6 * (template + 22 + 1656 / 4 / 3), rel=1e-3)


# Documents of one part and of two or three, a half each; then 400 to 2,000 questions.
N_PARTS, N_SOURCE = 3000 + 1000 * 2.5, 350_000


def test_a_served_model_needs_the_time_to_read_its_prompts_and_its_weights(folder):
    row = rows_of(folder)["translate", "deu-Latn"]
    assert ends(row, "items") == (N_PARTS + 400, N_PARTS + 2000)
    # A template of 65 characters in each; 22 tokens of each question; half more in German.
    n_texts = N_SOURCE + 2000 * 22
    n_in, n_out = 1.6 * ((N_PARTS + 2000) * 65 / 4 + n_texts), 1.6 * 1.5 * n_texts
    assert row["tokens_in_high"] == pytest.approx(n_in, abs=1)
    assert row["tokens_out_high"] == pytest.approx(n_out, abs=1)
    # Two operations for each of 1e9 active parameters; 20 GB of weights for a hundred tokens.
    seconds = n_in * 2e9 / 1e14 + n_out * 20 / 1000 / 100
    assert row["gpu_minutes_high"] == pytest.approx(seconds / 60, rel=1e-4)
    assert (row["gpus"], row["job_minutes"]) == (2, pytest.approx(seconds / 120, rel=1e-4))
    assert row["usd_high"] is None


@pytest.mark.parametrize(
    ("changes", "writing_s"),
    [
        ({"vllm": {"tokens_per_s": 4000}}, 2 / 4000),  # of one server: as measured
        ({"asking": {"concurrency": 1}}, 2 / 1000),  # 1 G parameters of each request, 10 G in all
        ({"asking": {"concurrency": 4}}, 8 / 1000 / 4),
    ],
)
def test_a_served_model_writes_as_measured_or_as_weights_are_read(changes, writing_s, folder):
    here = {**LLMS["here"], **changes}
    here["vllm"] = LLMS["here"]["vllm"] | changes.get("vllm", {})
    row = rows_of(folder, llms=LLMS | {"here": here})["translate", "deu-Latn"]
    seconds = row["tokens_in_high"] * 2e9 / 1e14 + row["tokens_out_high"] * writing_s
    assert row["gpu_minutes_high"] == pytest.approx(seconds / 60, rel=1e-4)


def test_where_a_model_is_served_decides_what_is_counted_of_it(folder):
    def row(**entry):
        return rows_of(folder, llms=LLMS | {"here": LLMS["here"] | entry})["translate", "deu-Latn"]

    elsewhere = row(backend="openai", base_url="http://node7:8000/v1")
    assert elsewhere["gpu_minutes_high"] > 0
    assert (elsewhere["gpus"], elsewhere["job_minutes"]) == (0, None)  # not of the jobs that ask it
    on_cpu = row(vllm={"parameters_b": 10, "gpus": 0})
    assert (on_cpu["gpus"], on_cpu["gpu_minutes_high"], on_cpu["job_minutes"]) == (0, None, None)
    measured = row(vllm={"parameters_b": 10, "gpus": 0, "tokens_per_s": 4000})
    minutes = measured["tokens_out_high"] / 4000 / 60
    assert measured["job_minutes"] == pytest.approx(minutes, rel=1e-4)


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
    frame = pl.DataFrame([row], schema=LLM_USAGE.empty().schema)
    path = build(folder) / f"{f'{task}/{shard}' if shard else task}.usage.parquet"
    write_domains({"general": frame}, path, LLM_USAGE, provenance=Provenance("gather", 1))


def write_flow(folder, step, entered, kept):
    rows = [(step, 1, "questions", entered, kept, entered - kept)]
    frame = pl.DataFrame(rows, schema=FLOW.empty().schema, orient="row")
    path = build(folder) / f"{step}.flow.parquet"
    write_domains({"general": frame}, path, FLOW, provenance=Provenance("gather", 1))


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


def test_of_a_task_under_way_the_shards_that_are_done_count(folder):
    write_usage(folder, "propose_questions", 900, shard="1-of-2")
    row = rows_of(folder, POSIR | {"shards": 2})["propose_questions"]
    assert (ends(row, "items"), row["answered"], row["basis"]) == ((2000, 2000), 900, "plan")
    assert ends(row, "tokens_out") == (1100 * 40, 1100 * 40)
    write_usage(folder, "propose_questions", 1100, shard="1-of-3")  # of another cut
    assert rows_of(folder, POSIR | {"shards": 2})["propose_questions"]["answered"] == 900


def test_tables_that_are_gone_or_have_other_columns_measure_nothing(folder, monkeypatch):
    before = rows_of(folder)
    write_usage(folder, "locate_span", 4100)
    write_flow(folder, "verify", 3900, 1300)
    assert rows_of(folder) != before
    path = build(folder) / "verify.flow.parquet"
    pl.read_parquet(path).drop("kept").write_parquet(path)
    path = build(folder) / "locate_span.usage.parquet"
    path.unlink()  # as a run does that makes it anew, between two looks
    monkeypatch.setattr(Path, "is_file", lambda one: one == path or os.path.isfile(one))
    assert rows_of(folder) == before


def text_files(folder, n):
    """Write ``n`` texts of 60, 61, ... words; return their source."""
    (folder / "texts").mkdir()
    for i in range(n):
        text = " ".join(f"w{i}x{j}" for j in range(60 + i))
        (folder / "texts" / f"{i}.txt").write_text(text)
    return {"kind": "files", "paths": ["texts"]}


def test_a_trial_run_measures_for_a_larger_sample(folder):
    """Its shares and means count, times the documents of today; its answers are of others."""
    small = POSIR | {"source": text_files(folder, 400)}
    small["sample"] = {"unit": "words", "edges": [10, 500], "n_documents": 4}
    place, section = places_of(plan_of(small).benchmarks["mine"].section)[0], small["sample"]
    sample = plan_of(small).benchmarks["mine"].generated.sample
    names = ("documents", "sampling", "dropped")
    paths = {name: build(folder) / f"{name}.parquet" for name in names}
    params = sample_params(place.source, None, sample, length_tokenizer="words")
    run(run_sample, {}, paths, domains={"general": params})
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
    assert ends(search, "items") == (1, 1)
    (folder / "results/mine/data/eng-Latn/general/queries.parquet").unlink()  # not built yet
    assert rows_of(folder, models=["all-minilm-l6-v2"])["encode"]["basis"] == "plan"


def test_what_nobody_can_tell_is_null_and_said_so(folder):
    section = {"recipe": "known_item", "source": {"kind": "hub", "name": "owner/name"}}
    found = rows_of(folder, section, models=["all-minilm-l6-v2"])
    assert {row["basis"] for row in found.values()} == {"unknown"}
    assert ends(found["encode"], "items") == (None, None)
