"""The expected work of a config, and the measurements of a run that replace assumptions."""

import os
from pathlib import Path

import polars as pl
import pytest
from jobs import run
from language_tables import write_domains, write_texts
from polars.testing import assert_frame_equal

from psibench.config.paths import PROMPTS
from psibench.generate.benchmarks import places_of
from psibench.generate.sample import run_sample
from psibench.generate.sampling import sample_params
from psibench.llm.prompts import load_prompt
from psibench.plan import jobs, work
from psibench.plan.config import load_config
from psibench.plan.measured import MeasuredWork
from psibench.plan.plan import make_plan
from psibench.plan.requests import KEPT_SHARE, filtered, prompt_tokens
from psibench.plan.texts import (
    CHARS_PER_TOKEN,
    QUERY_TOKENS,
    TOKENS_PER_WORD,
    Texts,
    store_bytes,
    tokens_read,
)
from psibench.plan.work import UNCERTAINTY, by_config, summed, work_table
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
# 3,000 documents of 0 to 100 tokens and 1,000 of 100 to 300: 350,000 tokens, 87.5 each. Half of the
# documents get two questions each: 4,000 candidates.
SAMPLE = {"unit": "tokens", "edges": [0, 100, 300], "shares": [3, 1], "n_documents": 4000}
ASKING = {
    "recipe": "posir",
    "source": {"kind": "hub", "name": "owner/name"},
    "sample": SAMPLE,
    "propose_questions": {"llm": "paid", "share": 0.5, "n_questions": 2},
    "locate_span": {"llm": "paid"},
}
POSIR = ASKING | {
    "verify": {"rerankers": ["sized"]},
    "false_negatives": {
        "protocol": "posir",
        "recall": {"model": "bm25", "top_k": 100},
        "rerankers": ["sized"],
    },
    "translate": {"llm": "here", "to": ["deu-Latn"], "max_part_tokens": 100},
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_of(section=POSIR, **changes):
    encoding = GIVEN["encoding"] | changes.pop("encoding", {})
    given = GIVEN | {"benchmarks": {"mine": section}, "encoding": encoding}
    return make_plan(*load_config(given | changes))


def table_of(folder, section=POSIR, **changes):
    return work_table(MeasuredWork(plan_of(section, **changes), folder / "results"))


def rows_of(folder, section=POSIR, **changes):
    """The rows of a config by (stage, language), and the English rows also by stage."""
    found = {}
    for row in table_of(folder, section, **changes).to_dicts():
        found[row["stage"], row["language"]] = row
        if row["language"] == "eng-Latn":
            found[row["stage"]] = row
    return found


def encoder(**fields):
    entry = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 4096}
    return {name: value for name, value in (entry | fields).items() if value is not None}


def encoded(folder, section=ASKING, *, language="eng-Latn", encoding=None, **fields):
    """The row of encoding a section's texts with a model."""
    own = {"m": encoder(**fields)}
    found = rows_of(folder, section, models=["m"], registry=own, encoding=encoding or {})
    return found["encode", language]


def of_sample(section, **changes):
    return section | {"sample": section["sample"] | changes}


# Counts


def test_twice_the_documents_take_twice_the_work(folder):
    given = {"models": ["bm25", "all-minilm-l6-v2"]}
    once = table_of(folder, of_sample(POSIR, n_documents=4000), **given)
    twice = table_of(folder, of_sample(POSIR, n_documents=8000), **given)
    names = ["items", "tokens_in", "tokens_out", "usd", "gpu_minutes", "store_bytes"]
    assert_frame_equal(twice.select(names), once.select(pl.col(names) * 2), rel_tol=1e-4)
    assert once["items"].null_count() == 0


def test_sums_of_groups_add_up_to_the_total(folder):
    table = table_of(folder, models=["bm25", "all-minilm-l6-v2"])
    (total,) = summed(table.with_columns(stage=pl.lit("total")), ["stage"]).to_dicts()
    parts = summed(table, ["stage", "language"])
    for name in ("items", "tokens_in", "usd", "jobs", "store_bytes"):
        assert total[name] == pytest.approx(parts[name].sum())
    assert total["job_minutes"] == table["job_minutes"].max()


def test_each_filter_removes_candidates_down_to_the_total_share():
    section = plan_of(POSIR | {"grade": {"llm": "paid"}}).benchmarks["mine"].section
    entering, left = filtered(section, 1000, lambda _: None)
    assert list(entering) == ["verify", "grade", "false_negatives"]
    assert 1000 == entering["verify"] > entering["grade"] > entering["false_negatives"] == left
    assert left == pytest.approx(1000 * KEPT_SHARE)
    measured = {"verify": 0.5, "grade": 0.1, "false_negatives": 0.8}
    assert filtered(section, 1000, measured.get)[1] == pytest.approx(40)


def test_views_have_the_queries_after_their_step():
    plan = plan_of(POSIR | {"tiny": {"per_position": 7}})
    known = by_config(plan)
    n = {name: known.texts(name, "eng-Latn").n_queries for name in plan.named}
    assert n == {"mine": 4000 * KEPT_SHARE, "mine-raw": 4000 * KEPT_SHARE, "mine-tiny": 3 * 7}
    assert known.texts("mine", "deu-Latn").n_queries == n["mine"]


def test_domains_of_a_language_add_up_and_translations_are_longer():
    corpora = [{"domain": domain, "source": ASKING["source"]} for domain in ("law", "medicine")]
    section = ASKING | {"corpora": corpora, "source": None, "translate": POSIR["translate"]}
    known, one = by_config(plan_of(section)), by_config(plan_of(ASKING)).texts("mine", "eng-Latn")
    english, german = (known.texts("mine", language) for language in ("eng-Latn", "deu-Latn"))
    assert english.n_texts == german.n_texts == 2 * one.n_texts
    assert german.mean_tokens() > english.mean_tokens() == one.mean_tokens()


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("tokens", 1), ("words", TOKENS_PER_WORD), ("chars", 1 / CHARS_PER_TOKEN)],
)
def test_units_of_length_are_converted_to_tokens(unit, factor):
    texts = by_config(plan_of(of_sample(ASKING, unit=unit))).texts("mine", "eng-Latn")
    assert texts.tokens() == pytest.approx(350_000 * factor)


# What models read and store


TEXTS = Texts(((50.0, 3.0), (200.0, 1.0)), n_queries=4, query_tokens=10)
WINDOWS = {"tokens": 100, "overlap": 20}
CHUNKS = {"splitter": "recursive", "size": 100, "overlap": 20}


@pytest.mark.parametrize(
    ("fields", "tokens", "vectors"),
    [
        ({}, 350, 4),
        ({"max_tokens": 100}, 3 * 50 + 100, 4),
        ({"scoring": "maxsim"}, 350, 350 + 4 * 9),  # one vector per token; a query has 10
        # Windows of 100 tokens, 80 apart: 200 tokens have three, and the overlap is read twice.
        ({"windows": WINDOWS}, 350 + 2 * 20, 3 + 3),
        ({"windows": WINDOWS | {"pool": "mean"}}, 350 + 2 * 20, 4),
        ({"windows": WINDOWS | {"keep": "head-and-tail"}}, 3 * 50 + 200, 2 * 4),
        ({"late_chunking": WINDOWS}, 350, 3 + 3),
        ({"chunks": CHUNKS}, 350 + 2 * 20, 3 + 3),
        ({"chunks": CHUNKS | {"size": 400, "overlap": 80, "unit": "characters"}}, 390, 3 + 3),
        ({"chunks": CHUNKS, "max_tokens": 50}, 6 * 50, 3 + 3),  # chunks are cut
        # Windows of 100 tokens, each read behind 25 tokens of the one before.
        ({"chunks": CHUNKS | {"context": "late"}, "max_tokens": 100}, 350 + 2 * 25, 3 + 3),
        ({"backend": "colbert", "query_tokens": 32}, 350 + 4 * 22, 350 + 4 * 31),
    ],
)
def test_the_entry_determines_how_much_a_model_reads_and_stores(fields, tokens, vectors):
    counts = {"length_tokenizer": "embedded:all-MiniLM-L6-v2"}
    plan = plan_of(models=["m"], registry={"m": encoder(dim=384, **fields)}, **counts)
    entry, encoding = plan.models["m"], plan.config.encoding
    assert tokens_read(entry, TEXTS) == tokens + 4 * 10
    assert store_bytes(entry, TEXTS, encoding) == (vectors + 4) * 384 * 4
    halves = encoding.model_copy(update={"storage": "float16"})
    assert store_bytes(entry, TEXTS, halves) == (vectors + 4) * 384 * 2


def test_disk_use_depends_on_the_dimensions(folder):
    row = encoded(folder, dim=384, dimensions=64)
    assert row["store_bytes"] == row["items"] * 64 * 4
    sparse = encoded(folder, backend="sparse-encoder", max_terms=100)
    assert sparse["store_bytes"] == row["items"] * 100 * 3 * 4
    assert encoded(folder, backend="sparse-encoder", dim=384)["store_bytes"] is None
    assert encoded(folder)["store_bytes"] is None


# Number and time of jobs


LARGE = of_sample(ASKING, edges=[0, 1000], shares=None, n_documents=12_000_000)


@pytest.mark.parametrize("tflops", [5000, 1000, 100, 70, 20, 1])
def test_shards_take_between_ten_minutes_and_minutes_per_shard(tflops, folder):
    encoding = {"gpu_tflops": tflops, "minutes_per_shard": 30}
    row = encoded(folder, LARGE, encoding=encoding, parameters_m=100)
    assert row["job_minutes"] * row["jobs"] == pytest.approx(row["gpu_minutes"])
    assert row["job_minutes"] <= 30 or row["jobs"] == 64
    assert row["job_minutes"] >= 10 or row["jobs"] == 1
    fixed = encoded(folder, LARGE, encoding=encoding | {"shards": 5}, parameters_m=100)
    assert (fixed["jobs"], fixed["gpu_minutes"]) == (5, row["gpu_minutes"])


def test_time_depends_on_the_computing_parameters(folder):
    row = encoded(folder, LARGE, parameters_m=100)
    # 12 M documents of 500 tokens and queries; two operations per parameter, 1e14 per second.
    assert row["gpu_minutes"] == pytest.approx(row["tokens_in"] * 2e8 / 1e14 / 60)
    assert row["cpu_minutes"] == pytest.approx(row["gpu_minutes"] * 1e5 / 60 / os.cpu_count())
    looked_up = encoded(folder, LARGE, parameters_m=125, embedding_parameters_m=25)
    assert looked_up["gpu_minutes"] == row["gpu_minutes"]
    assert encoded(folder, backend="static-embeddings", max_tokens=None)["gpu_minutes"] == 0
    unsized = encoded(folder, LARGE)
    assert (unsized["gpu_minutes"], unsized["job_minutes"], unsized["jobs"]) == (None, None, 1)


def test_time_limits_have_a_margin_and_a_minimum():
    given = {"models": ["m"], "encoding": {"shards": 2}}
    given |= {"registry": {"m": encoder(parameters_m=1000)}}
    unsized = {"recipe": "known_item", "source": ASKING["source"]}
    sections = (LARGE, ASKING, of_sample(ASKING, n_documents=100), unsized)
    plans = [plan_of(section, **given) for section in sections]
    planned = by_config(plans[0]).rows["encode", "mine", "eng-Latn", "m"].job_minutes
    minutes = [jobs.encode_minutes(plan, "mine", "m", "eng-Latn") for plan in plans]
    assert minutes == [int(1.5 * planned), 240, 240, 240]
    assert [jobs.threads(plan, "mine", "eng-Latn") for plan in plans] == [8, 8, 1, 2]


def test_only_the_view_with_all_texts_is_sharded():
    given = {"models": ["bm25", "m"], "registry": {"m": encoder(parameters_m=100)}}
    plan = plan_of(POSIR | {"sample": LARGE["sample"], "tiny": {}}, **given)
    for language, first in (("eng-Latn", "mine-raw"), ("deu-Latn", "mine")):
        counts = {name: work.encoding_jobs(plan, name, "m", language) for name in plan.named}
        assert [name for name, n in counts.items() if n > 1] == [first]


@pytest.mark.parametrize("n_parts", [1, 2])
def test_all_parts_and_rerankers_have_equal_portions(n_parts, folder):
    corpora = [{"domain": name, "source": POSIR["source"]} for name in ("law", "medicine")]
    panel = {"rerankers": ["sized", "embedded-bm25"]}
    section = of_sample(POSIR, n_documents=20_000_000) | {"corpora": corpora, "source": None}
    section |= {"parts": n_parts, "false_negatives": POSIR["false_negatives"] | panel}
    plan = plan_of(section, encoding={"minutes_per_shard": 120})
    first, second = work_table(MeasuredWork(plan, folder)).filter(stage="score_pairs").to_dicts()
    named = work.portions(plan, "mine", "eng-Latn", "false_negatives")
    assert first["jobs"] == second["jobs"] == n_parts * len(named) > n_parts
    assert named[-1] == f"/{len(named)}-of-{len(named)}"
    # Short enough with twice the expected queries.
    assert UNCERTAINTY * first["job_minutes"] == pytest.approx(120, rel=0.05)
    at = {"benchmark": "mine", "lang": "eng-Latn", "reranker": "sized", "of": "false_negatives"}
    assert jobs.scoring_minutes(plan, **at) == max(240, int(3 * first["job_minutes"]))
    unsized = plan_of(rerankers={"sized": RERANKER})
    assert jobs.scoring_minutes(unsized, **at) == 1440
    assert work.portions(unsized, "mine", "eng-Latn", "false_negatives") == [""]


# Rerankers, training and language models


def test_rerankers_score_pairs_of_the_queries_before_their_filter(folder):
    panel = ["sized", "embedded-bm25", "embedded-minilm-cosine"]
    table = table_of(folder, POSIR | {"verify": {"rerankers": panel}})
    sized, bm25, cosine = table.filter(stage="score_parts").to_dicts()
    # Each candidate with and without its span.
    assert sized["items"] == bm25["items"] == cosine["items"] == 2 * 4000
    assert sized["tokens_in"] == sized["items"] * (87.5 + QUERY_TOKENS)
    assert bm25["gpu_minutes"] == 0 < cosine["gpu_minutes"] < sized["gpu_minutes"]
    (pairs,) = table.filter(stage="score_pairs").to_dicts()
    assert pairs["items"] == 4000 * KEPT_SHARE * 100


def test_a_training_uses_at_most_its_budget_per_length_bin(folder):
    base = {"checkpoint": "owner/name", "max_tokens": 256, "pooling": "mean", "parameters_m": 23}

    def items(**more):
        training = {"benchmark": "mine", "settings": {"epochs": 2}, "bases": {"net": base}, **more}
        return rows_of(folder, ASKING, training={"t": training})["train"]["items"]

    everything = items()  # in five bins of length
    assert everything > items(budget=30) == 2 * 5 * 30
    assert items(budget=10**6) == everything


def test_a_task_costs_its_template_texts_and_replies(folder):
    locate = rows_of(folder)["locate_span"]
    assert (locate["items"], locate["answered"], locate["basis"]) == (4000, 0, "plan")
    template = prompt_tokens(load_prompt(PROMPTS / "locate_span.md").messages)
    # Plus the document, a question and an answer.
    assert locate["tokens_in"] == pytest.approx(4000 * (template + 87.5 + 2 * QUERY_TOKENS))
    expected = (locate["tokens_in"] + 10 * locate["tokens_out"]) / 1e6
    assert locate["usd"] == pytest.approx(expected)


def test_assumed_thinking_tokens_are_billed_up_to_the_limit(folder):
    def row(**entry):
        return rows_of(folder, llms=LLMS | {"paid": LLMS["paid"] | entry})["locate_span"]

    plain, thinking = row(), row(thinks=True)
    bounded = row(thinks=True, sampling={"max_output_tokens": 500})
    assert plain["usd"] < bounded["usd"] < thinking["usd"]
    assert bounded["tokens_out"] == 4000 * 500
    assert thinking["store_bytes"] == plain["store_bytes"]  # not stored
    write_usage(folder, "locate_span", 4000, model="paid-0")
    assert row(thinks=True)["tokens_out"] == 4000 * 40


COUNTED = {
    ("choose_configuration", "eng-Latn"): (240, 190_500, 9_421),
    ("generate_positional_query", "eng-Latn"): (1440, 847_838, 61_591),
    ("grade_first", "eng-Latn"): (642, 140_528, 4_494),
    ("grade_rest", "eng-Latn"): (1284, 281_405, 8_988),
    ("audit", "eng-Latn"): (3363, 674_475, 30_267),
    ("judge_1", "eng-Latn"): (190, 90_573, 1_330),
    ("translate", "qps-Latn"): (866, 239_998, 96_231),
    ("judge_refusals", "qps-Arab"): (12, 2_482, 81),
}
"""Items, input tokens and output tokens in a run of the embedded default in 2026-11."""


def test_most_estimates_of_the_default_are_within_the_uncertainty(folder):
    table = work_table(MeasuredWork(make_plan(*load_config({})), folder / "results"))
    names, n_close = ("items", "tokens_in", "tokens_out"), 0
    for (stage, language), counted in COUNTED.items():
        (row,) = table.filter(stage=stage, language=language).to_dicts()
        ratios = [n / row[name] for name, n in zip(names, counted, strict=True)]
        n_close += all(1 / UNCERTAINTY <= ratio <= UNCERTAINTY for ratio in ratios)
    assert n_close == len(COUNTED) - 1  # except judge_1


@pytest.mark.parametrize(
    ("changes", "writing_s"),
    [
        ({}, 20 / 1000 / 100),  # 20 GB of weights for a hundred tokens
        ({"tokens_per_s": 4000}, 2 / 4000),  # measured for one server
        ({"concurrency": 1}, 2 / 1000),  # 1 G active parameters per request
        ({"concurrency": 4}, 8 / 1000 / 4),
    ],
)
def test_writing_speed_is_measured_or_bound_by_weights(changes, writing_s, folder):
    vllm = LLMS["here"]["vllm"] | {"tokens_per_s": changes.get("tokens_per_s")}
    asking = {"concurrency": changes.get("concurrency", 100)}
    here = LLMS["here"] | {"vllm": vllm, "asking": asking}
    row = rows_of(folder, llms=LLMS | {"here": here})["translate", "deu-Latn"]
    # Reading takes two operations per token and active parameter (1e9).
    seconds = row["tokens_in"] * 2e9 / 1e14 + row["tokens_out"] * writing_s
    assert row["gpu_minutes"] == pytest.approx(seconds / 60)
    assert (row["gpus"], row["job_minutes"]) == (2, pytest.approx(seconds / 120))


def test_known_times_depend_on_where_a_model_is_served(folder):
    def known_times(**entry):
        llms = LLMS | {"here": LLMS["here"] | entry}
        row = rows_of(folder, llms=llms)["translate", "deu-Latn"]
        known = [row[name] is not None for name in ("gpu_minutes", "cpu_minutes", "job_minutes")]
        return (row["gpus"], *known)

    # On another machine, its time is not the time of the jobs here.
    assert known_times(backend="openai", base_url="http://node7:8000/v1") == (0, True, False, False)
    on_cpu = {"parameters_b": 10, "gpus": 0}
    assert known_times(vllm=on_cpu) == (0, False, False, False)
    assert known_times(vllm=on_cpu | {"tokens_per_s": 4000}) == (0, False, True, True)


# Measurements of a run


def build(folder):
    return folder / "results" / "mine" / "build" / "eng-Latn"


def write_usage(folder, task, n_items, *, model="paid-1", shard=None):
    """Write the usage of a task: 100 input tokens and 40 output tokens per item."""
    prompt = load_prompt(PROMPTS / f"{task}.md")
    row = dict.fromkeys(LLM_USAGE.column_names, 0) | {
        **{"stage": task, "llm": "paid", "model": model, "backend": "openai"},
        **{"n_items": n_items, "n_ok": n_items, "n_requests": n_items, "prompt_hash": prompt.hash},
        **{"input_tokens": 100 * n_items, "output_tokens": 40 * n_items},
    }
    frame = pl.DataFrame([row], schema=LLM_USAGE.empty().schema)
    path = build(folder) / f"{f'{task}/{shard}' if shard else task}.usage.parquet"
    write_domains({"general": frame}, path, LLM_USAGE, provenance=Provenance("ask", 1))


def write_flow(folder, step, entered, kept):
    rows = [(step, 1, "questions", entered, kept, entered - kept)]
    frame = pl.DataFrame(rows, schema=FLOW.empty().schema, orient="row")
    path = build(folder) / f"{step}.flow.parquet"
    write_domains({"general": frame}, path, FLOW, provenance=Provenance("ask", 1))


def test_measurements_of_a_run_replace_assumptions(folder):
    write_usage(folder, "propose_questions", 2100)
    write_usage(folder, "locate_span", 4100)
    write_flow(folder, "locate_span", 4100, 3900)
    write_flow(folder, "verify", 3900, 1300)
    found = rows_of(folder)
    locate, pairs = found["locate_span"], found["score_pairs"]
    assert (locate["items"], locate["answered"]) == (4100, 4100)
    assert (locate["usd"], locate["basis"]) == (0, "tables")
    # The last task kept 3,900 of 4,100 items, here of 4,000, and the filter kept a third.
    n = 4000 * 3900 / 4100
    assert found["score_parts"]["items"] == pytest.approx(2 * n)
    assert pairs["items"] == pytest.approx(100 * n / 3)
    # Another model has no answers yet, but the tokens per item still count.
    write_usage(folder, "locate_span", 4100, model="paid-0")
    again = rows_of(folder)["locate_span"]
    assert (again["items"], again["answered"]) == (4100, 0)
    assert (again["tokens_in"], again["tokens_out"]) == (410_000, 164_000)


def test_finished_shards_of_a_running_task_count(folder):
    write_usage(folder, "propose_questions", 900, shard="1-of-2")
    write_usage(folder, "propose_questions", 1100, shard="1-of-3")  # of another number of shards
    row = rows_of(folder, POSIR | {"shards": 2})["propose_questions"]
    assert (row["items"], row["answered"], row["basis"]) == (2000, 900, "plan")
    assert row["tokens_out"] == 1100 * 40


def test_missing_and_outdated_tables_are_ignored(folder, monkeypatch):
    before = rows_of(folder)
    write_flow(folder, "verify", 3900, 1300)
    path = build(folder) / "verify.flow.parquet"
    pl.read_parquet(path).drop("kept").write_parquet(path)
    gone = build(folder) / "locate_span.usage.parquet"  # removed between check and read
    monkeypatch.setattr(Path, "is_file", lambda one: one == gone or os.path.isfile(one))
    assert rows_of(folder) == before


def text_files(folder, n):
    """Write ``n`` texts of 60, 61, ... words; return their source."""
    (folder / "texts").mkdir()
    for i in range(n):
        text = " ".join(f"w{i}x{j}" for j in range(60 + i))
        (folder / "texts" / f"{i}.txt").write_text(text)
    return {"kind": "files", "paths": ["texts"]}


def test_a_trial_run_measures_for_a_larger_sample(folder):
    """Its shares and means are applied to the current documents; its answers do not count."""
    small = POSIR | {"source": text_files(folder, 400)}
    small["sample"] = {"unit": "words", "edges": [10, 500], "n_documents": 4}
    benchmark = plan_of(small).benchmarks["mine"]
    place, sample = places_of(benchmark.section)[0], benchmark.generated.sample
    before = rows_of(folder, small)["sample"]
    names = ("documents", "sampling", "dropped")
    paths = {name: build(folder) / f"{name}.parquet" for name in names}
    params = sample_params(place.source, None, sample, length_tokenizer="words")
    run(run_sample, {}, paths, domains={"general": params})
    assert before["items"] == pl.read_parquet(paths["documents"]).height
    write_usage(folder, "propose_questions", 4)  # for all four documents; planned for half
    write_usage(folder, "locate_span", 10)
    write_flow(folder, "locate_span", 10, 9)
    write_flow(folder, "verify", 9, 3)
    now = rows_of(folder, small)
    assert (now["locate_span"]["items"], now["locate_span"]["answered"]) == (10, 10)
    later = rows_of(folder, of_sample(small, n_documents=400))
    # 200 of 400 documents get two questions each; 9 of 10 are located, and a third is kept.
    locate = later["locate_span"]
    assert (locate["items"], locate["answered"]) == (400, 0)
    assert locate["tokens_out"] == 16_000
    assert later["score_pairs"]["items"] == 12_000


def test_built_corpora_and_queries_are_counted(folder):
    documents = {"d1": "one two three", "d2": "four " * 300}
    write_texts(folder / "results/mine/data/eng-Latn", documents, {"q": "Which one of it?"})
    found = rows_of(folder, models=["all-minilm-l6-v2"])
    encode = found["encode"]
    assert (encode["basis"], encode["items"]) == ("tables", 3)
    # 3 tokens, 300 truncated to 256, and 16 characters of a query at four per token.
    assert encode["tokens_in"] == 3 + 256 + 4
    assert found["search"]["items"] == 1


def test_unknown_values_are_null(folder):
    section = {"recipe": "known_item", "source": {"kind": "hub", "name": "owner/name"}}
    found = rows_of(folder, section, models=["all-minilm-l6-v2"])
    assert {row["basis"] for row in found.values()} == {"unknown"}
    assert found["encode"]["items"] is None
