"""The table of a config's work: the rules its expected values keep, and what a run measured."""

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
from psibench.plan.measured import Measured
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
# 3,000 documents of 0 to 100 tokens and 1,000 of 100 to 300: 350,000 tokens, 87.5 each. Half of
# them are asked for two questions: 4,000 candidates.
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
    return work_table(Measured(plan_of(section, **changes), folder / "results"))


def rows_of(folder, section=POSIR, **changes):
    """The rows of a config by stage and language; of its English ones by stage alone."""
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
    """The row of encoding a section's texts by a model."""
    own = {"m": encoder(**fields)}
    found = rows_of(folder, section, models=["m"], registry=own, encoding=encoding or {})
    return found["encode", language]


def of_sample(section, **changes):
    return section | {"sample": section["sample"] | changes}


# Counts


def test_twice_the_documents_are_twice_the_work(folder):
    given = {"models": ["bm25", "all-minilm-l6-v2"]}
    once = table_of(folder, of_sample(POSIR, n_documents=4000), **given)
    twice = table_of(folder, of_sample(POSIR, n_documents=8000), **given)
    names = ["items", "tokens_in", "tokens_out", "usd", "gpu_minutes", "store_bytes"]
    assert_frame_equal(twice.select(names), once.select(pl.col(names) * 2), rel_tol=1e-4)
    assert once["items"].null_count() == 0


def test_sums_of_rows_are_those_of_the_total(folder):
    table = table_of(folder, models=["bm25", "all-minilm-l6-v2"])
    (total,) = summed(table.with_columns(stage=pl.lit("total")), ["stage"]).to_dicts()
    parts = summed(table, ["stage", "language"])
    for name in ("items", "tokens_in", "usd", "jobs", "store_bytes"):
        assert total[name] == pytest.approx(parts[name].sum())
    assert total["job_minutes"] == table["job_minutes"].max()


def test_filters_leave_less_at_each_step_and_one_share_in_the_end():
    section = plan_of(POSIR | {"grade": {"llm": "paid"}}).benchmarks["mine"].section
    entering, left = filtered(section, 1000, lambda _: None)
    assert list(entering) == ["verify", "grade", "false_negatives"]
    assert 1000 == entering["verify"] > entering["grade"] > entering["false_negatives"] == left
    assert left == pytest.approx(1000 * KEPT_SHARE)
    measured = {"verify": 0.5, "grade": 0.1, "false_negatives": 0.8}
    assert filtered(section, 1000, measured.get)[1] == pytest.approx(40)


def test_views_have_the_queries_that_their_step_leaves():
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
def test_units_of_length_become_tokens(unit, factor):
    texts = by_config(plan_of(of_sample(ASKING, unit=unit))).texts("mine", "eng-Latn")
    assert texts.tokens() == pytest.approx(350_000 * factor)


# What models read and store


TEXTS = Texts(((50.0, 3.0), (200.0, 1.0)), n_queries=4, query_tokens=10)
WINDOWS = {"tokens": 100, "overlap": 20}


@pytest.mark.parametrize(
    ("fields", "tokens", "vectors"),
    [
        ({}, 350, 4),
        ({"max_tokens": 100}, 3 * 50 + 100, 4),
        ({"scoring": "maxsim"}, 350, 350 + 4 * 9),  # one per token, of 10 of a query
        # Windows of 100, 80 apart: three of 200 tokens; what overlaps is read twice.
        ({"windows": WINDOWS}, 350 + 2 * 20, 3 + 3),
        ({"windows": WINDOWS | {"pool": "mean"}}, 350 + 2 * 20, 4),
        ({"windows": WINDOWS | {"keep": "head-and-tail"}}, 3 * 50 + 200, 2 * 4),
        ({"late_chunking": WINDOWS}, 350, 3 + 3),
        ({"backend": "colbert", "query_tokens": 32}, 350 + 4 * 22, 350 + 4 * 31),
    ],
)
def test_a_model_reads_and_stores_what_its_entry_says(fields, tokens, vectors):
    plan = plan_of(models=["m"], registry={"m": encoder(dim=384, **fields)})
    entry, encoding = plan.models["m"], plan.config.encoding
    assert tokens_read(entry, TEXTS) == tokens + 4 * 10
    assert store_bytes(entry, TEXTS, encoding) == (vectors + 4) * 384 * 4
    halves = encoding.model_copy(update={"storage": "float16"})
    assert store_bytes(entry, TEXTS, halves) == (vectors + 4) * 384 * 2


def test_disk_use_is_by_the_dimensions_and_unknown_without(folder):
    row = encoded(folder, dim=384, dimensions=64)
    assert row["store_bytes"] == row["items"] * 64 * 4
    sparse = encoded(folder, backend="sparse-encoder", max_terms=100)
    assert sparse["store_bytes"] == row["items"] * 100 * 3 * 4
    assert encoded(folder, backend="sparse-encoder", dim=384)["store_bytes"] is None
    assert encoded(folder)["store_bytes"] is None


# How work is cut into jobs


LARGE = of_sample(ASKING, edges=[0, 1000], shares=None, n_documents=12_000_000)


@pytest.mark.parametrize("tflops", [5000, 1000, 100, 70, 20, 1])
def test_a_shard_lasts_ten_minutes_and_at_most_minutes_per_shard(tflops, folder):
    encoding = {"gpu_tflops": tflops, "minutes_per_shard": 30}
    row = encoded(folder, LARGE, encoding=encoding, parameters_m=100)
    assert row["job_minutes"] * row["jobs"] == pytest.approx(row["gpu_minutes"])
    assert row["job_minutes"] <= 30 or row["jobs"] == 64
    assert row["job_minutes"] >= 10 or row["jobs"] == 1
    fixed = encoded(folder, LARGE, encoding=encoding | {"shards": 5}, parameters_m=100)
    assert (fixed["jobs"], fixed["gpu_minutes"]) == (5, row["gpu_minutes"])


def test_time_is_by_the_parameters_that_compute_and_unknown_without(folder):
    row = encoded(folder, LARGE, parameters_m=100)
    # 12 M documents of 500 tokens, their queries; two operations a parameter at 1e14 a second.
    assert row["gpu_minutes"] == pytest.approx(row["tokens_in"] * 2e8 / 1e14 / 60)
    assert row["cpu_minutes"] == pytest.approx(row["gpu_minutes"] * 1e5 / 60 / os.cpu_count())
    looked_up = encoded(folder, LARGE, parameters_m=125, embedding_parameters_m=25)
    assert looked_up["gpu_minutes"] == row["gpu_minutes"]
    assert encoded(folder, backend="static-embeddings", max_tokens=None)["gpu_minutes"] == 0
    unsized = encoded(folder, LARGE)
    assert (unsized["gpu_minutes"], unsized["job_minutes"], unsized["jobs"]) == (None, None, 1)


def test_a_job_asks_for_half_more_minutes_than_planned_and_four_hours_at_least():
    given = {"models": ["m"], "encoding": {"shards": 2}}
    given |= {"registry": {"m": encoder(parameters_m=1000)}}
    unsized = {"recipe": "known_item", "source": ASKING["source"]}
    sections = (LARGE, ASKING, of_sample(ASKING, n_documents=100), unsized)
    plans = [plan_of(section, **given) for section in sections]
    planned = by_config(plans[0]).rows["encode", "mine", "eng-Latn", "m"].job_minutes
    minutes = [jobs.encode_minutes(plan, "mine", "m", "eng-Latn") for plan in plans]
    assert minutes == [int(1.5 * planned), 240, 240, 240]
    assert [jobs.threads(plan, "mine", "eng-Latn") for plan in plans] == [8, 8, 1, 2]


def test_one_view_alone_is_cut_into_shards():
    given = {"models": ["bm25", "m"], "registry": {"m": encoder(parameters_m=100)}}
    plan = plan_of(POSIR | {"sample": LARGE["sample"], "tiny": {}}, **given)
    for language, first in (("eng-Latn", "mine-raw"), ("deu-Latn", "mine")):
        counts = {name: work.encoding_jobs(plan, name, "m", language) for name in plan.named}
        assert [name for name, n in counts.items() if n > 1] == [first]


@pytest.mark.parametrize("n_parts", [1, 2])
def test_scores_of_a_filter_are_cut_alike_in_each_part(n_parts, folder):
    corpora = [{"domain": name, "source": POSIR["source"]} for name in ("law", "medicine")]
    panel = {"rerankers": ["sized", "embedded-bm25"]}
    section = of_sample(POSIR, n_documents=20_000_000) | {"corpora": corpora, "source": None}
    section |= {"parts": n_parts, "false_negatives": POSIR["false_negatives"] | panel}
    plan = plan_of(section, encoding={"minutes_per_shard": 120})
    first, second = work_table(Measured(plan, folder)).filter(stage="score_pairs").to_dicts()
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


def test_rerankers_score_the_pairs_of_the_queries_that_enter_their_filter(folder):
    panel = ["sized", "embedded-bm25", "embedded-minilm-cosine"]
    table = table_of(folder, POSIR | {"verify": {"rerankers": panel}})
    sized, bm25, cosine = table.filter(stage="score_parts").to_dicts()
    # Each candidate with and without its span.
    assert sized["items"] == bm25["items"] == cosine["items"] == 2 * 4000
    assert sized["tokens_in"] == sized["items"] * (87.5 + QUERY_TOKENS)
    assert bm25["gpu_minutes"] == 0 < cosine["gpu_minutes"] < sized["gpu_minutes"]
    (pairs,) = table.filter(stage="score_pairs").to_dicts()
    assert pairs["items"] == 4000 * KEPT_SHARE * 100


def test_a_training_reads_what_is_left_or_its_budget_of_each_bin_if_that_is_less(folder):
    base = {"checkpoint": "owner/name", "max_tokens": 256, "pooling": "mean", "parameters_m": 23}

    def items(**more):
        training = {"benchmark": "mine", "settings": {"epochs": 2}, "bases": {"net": base}, **more}
        return rows_of(folder, ASKING, training={"t": training})["train"]["items"]

    everything = items()  # in five bins of length
    assert everything > items(budget=30) == 2 * 5 * 30
    assert items(budget=10**6) == everything


def test_a_task_costs_its_templates_texts_and_replies(folder):
    locate = rows_of(folder)["locate_span"]
    assert (locate["items"], locate["answered"], locate["basis"]) == (4000, 0, "plan")
    template = prompt_tokens(load_prompt(PROMPTS / "locate_span.md").messages)
    # And the document, a question and an answer.
    assert locate["tokens_in"] == pytest.approx(4000 * (template + 87.5 + 2 * QUERY_TOKENS))
    expected = (locate["tokens_in"] + 10 * locate["tokens_out"]) / 1e6
    assert locate["usd"] == pytest.approx(expected)


def test_thoughts_are_billed_up_to_the_bound_until_they_are_measured(folder):
    def row(**entry):
        return rows_of(folder, llms=LLMS | {"paid": LLMS["paid"] | entry})["locate_span"]

    plain, thinking = row(), row(thinks=True)
    bounded = row(thinks=True, sampling={"max_output_tokens": 500})
    assert plain["usd"] < bounded["usd"] < thinking["usd"]
    assert bounded["tokens_out"] == 4000 * 500
    assert thinking["store_bytes"] == plain["store_bytes"]  # thoughts are not kept
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
"""What a run of the embedded default in 2026-11 asked: items, tokens in and out."""


def test_most_figures_of_the_embedded_default_are_within_the_stated_factor(folder):
    table = work_table(Measured(make_plan(*load_config({})), folder / "results"))
    names, n_close = ("items", "tokens_in", "tokens_out"), 0
    for (stage, language), counted in COUNTED.items():
        (row,) = table.filter(stage=stage, language=language).to_dicts()
        ratios = [n / row[name] for name, n in zip(names, counted, strict=True)]
        n_close += all(1 / UNCERTAINTY <= ratio <= UNCERTAINTY for ratio in ratios)
    assert n_close == len(COUNTED) - 1  # but for judge_1


@pytest.mark.parametrize(
    ("changes", "writing_s"),
    [
        ({}, 20 / 1000 / 100),  # 20 GB of weights for a hundred tokens
        ({"tokens_per_s": 4000}, 2 / 4000),  # of one server: as measured
        ({"concurrency": 1}, 2 / 1000),  # 1 G parameters of each request, 10 G in all
        ({"concurrency": 4}, 8 / 1000 / 4),
    ],
)
def test_a_served_model_writes_as_measured_or_as_weights_are_read(changes, writing_s, folder):
    vllm = LLMS["here"]["vllm"] | {"tokens_per_s": changes.get("tokens_per_s")}
    asking = {"concurrency": changes.get("concurrency", 100)}
    here = LLMS["here"] | {"vllm": vllm, "asking": asking}
    row = rows_of(folder, llms=LLMS | {"here": here})["translate", "deu-Latn"]
    # Two operations for each of 1e9 active parameters and token that is read.
    seconds = row["tokens_in"] * 2e9 / 1e14 + row["tokens_out"] * writing_s
    assert row["gpu_minutes"] == pytest.approx(seconds / 60)
    assert (row["gpus"], row["job_minutes"]) == (2, pytest.approx(seconds / 120))


def test_where_a_model_is_served_decides_what_is_counted_of_it(folder):
    def figures(**entry):
        llms = LLMS | {"here": LLMS["here"] | entry}
        row = rows_of(folder, llms=llms)["translate", "deu-Latn"]
        known = [row[name] is not None for name in ("gpu_minutes", "cpu_minutes", "job_minutes")]
        return (row["gpus"], *known)

    # Elsewhere: its time is not that of the jobs that ask it.
    assert figures(backend="openai", base_url="http://node7:8000/v1") == (0, True, False, False)
    on_cpu = {"parameters_b": 10, "gpus": 0}
    assert figures(vllm=on_cpu) == (0, False, False, False)
    assert figures(vllm=on_cpu | {"tokens_per_s": 4000}) == (0, False, True, True)


# What a run measured


def build(folder):
    return folder / "results" / "mine" / "build" / "eng-Latn"


def write_usage(folder, task, n_items, *, model="paid-1", shard=None):
    """Write what a task used: 100 tokens in and 40 out for each item."""
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


def test_a_run_s_tables_take_the_place_of_guesses(folder):
    write_usage(folder, "propose_questions", 2100)
    write_usage(folder, "locate_span", 4100)
    write_flow(folder, "locate_span", 4100, 3900)
    write_flow(folder, "verify", 3900, 1300)
    found = rows_of(folder)
    locate, pairs = found["locate_span"], found["score_pairs"]
    assert (locate["items"], locate["answered"]) == (4100, 4100)
    assert (locate["usd"], locate["basis"]) == (0, "tables")
    # Of 4,000 candidates the last task made 3,900 of 4,100, and a third was left.
    n = 4000 * 3900 / 4100
    assert found["score_parts"]["items"] == pytest.approx(2 * n)
    assert pairs["items"] == pytest.approx(100 * n / 3)
    # Another model is asked again, for what the last one used.
    write_usage(folder, "locate_span", 4100, model="paid-0")
    again = rows_of(folder)["locate_span"]
    assert (again["items"], again["answered"]) == (4100, 0)
    assert (again["tokens_in"], again["tokens_out"]) == (410_000, 164_000)


def test_of_a_task_under_way_the_shards_that_are_done_count(folder):
    write_usage(folder, "propose_questions", 900, shard="1-of-2")
    write_usage(folder, "propose_questions", 1100, shard="1-of-3")  # of another cut
    row = rows_of(folder, POSIR | {"shards": 2})["propose_questions"]
    assert (row["items"], row["answered"], row["basis"]) == (2000, 900, "plan")
    assert row["tokens_out"] == 1100 * 40


def test_tables_that_are_gone_or_have_other_columns_measure_nothing(folder, monkeypatch):
    before = rows_of(folder)
    write_flow(folder, "verify", 3900, 1300)
    path = build(folder) / "verify.flow.parquet"
    pl.read_parquet(path).drop("kept").write_parquet(path)
    gone = build(folder) / "locate_span.usage.parquet"  # made anew between two looks
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
    """Its shares and means count, times the documents of today; its answers are of others."""
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
    write_usage(folder, "propose_questions", 4)  # of all four, where a half was planned
    write_usage(folder, "locate_span", 10)
    write_flow(folder, "locate_span", 10, 9)
    write_flow(folder, "verify", 9, 3)
    now = rows_of(folder, small)
    assert (now["locate_span"]["items"], now["locate_span"]["answered"]) == (10, 10)
    later = rows_of(folder, of_sample(small, n_documents=400))
    # 200 of 400 documents are asked two questions each, of which 9 of 10 are, and a third is left.
    locate = later["locate_span"]
    assert (locate["items"], locate["answered"]) == (400, 0)
    assert locate["tokens_out"] == 16_000
    assert later["score_pairs"]["items"] == 12_000


def test_a_corpus_that_is_built_is_counted_and_so_are_its_queries(folder):
    documents = {"d1": "one two three", "d2": "four " * 300}
    write_texts(folder / "results/mine/data/eng-Latn", documents, {"q": "Which one of it?"})
    found = rows_of(folder, models=["all-minilm-l6-v2"])
    encode = found["encode"]
    assert (encode["basis"], encode["items"]) == ("tables", 3)
    # 3 tokens, 300 cut at 256, and 16 characters of a query at four a token.
    assert encode["tokens_in"] == 3 + 256 + 4
    assert found["search"]["items"] == 1


def test_what_is_unknown_is_null(folder):
    section = {"recipe": "known_item", "source": {"kind": "hub", "name": "owner/name"}}
    found = rows_of(folder, section, models=["all-minilm-l6-v2"])
    assert {row["basis"] for row in found.values()} == {"unknown"}
    assert found["encode"]["items"] is None
