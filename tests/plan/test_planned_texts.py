"""What there is to encode, and in how many jobs, by the config alone."""

import pytest

from psibench.config.registry import parse_model
from psibench.plan import jobs
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan
from psibench.plan.texts import LengthBin, planned_texts, shards_of_minutes

LLM = {"llm": "stand-in"}
DOCS = {"kind": "python_docs"}
PLANNED = {"minutes_per_shard": 30, "gpu_tflops": 100, "max_shards": 64}
SAMPLE = {"unit": "tokens", "edges": [0, 100, 300], "shares": [3, 1], "n_documents": 4000}
POSIR = {
    "recipe": "posir",
    "source": DOCS,
    "sample": SAMPLE,
    "propose_questions": LLM | {"share": 0.5, "n_questions": 2},
    "locate_span": LLM,
}
RELEASE = {
    "recipe": "posir_release",
    "source": {"path": "owner/name"},
    "languages": ["eng-Latn", "deu-Latn"],
    "domains": ["law", "medicine"],
}


def config_of(section, **encoding):
    given = {"benchmarks": {"mine": section}, "models": ["bm25"], "encoding": PLANNED | encoding}
    return load_config(given)[0]


def encoder(**fields):
    own = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 512}
    return parse_model(own | {"parameters_m": 100} | fields)


def texts_of(section, language="eng-Latn", **given):
    return planned_texts(config_of(section).benchmarks["mine"], language, **given)


@pytest.mark.parametrize(
    ("most", "mean"),
    # All of 50 to 150 are cut; none is, the middle; half are below, 75 on average.
    [(40, 40.0), (50, 50.0), (150, 100.0), (1000, 100.0), (100, 87.5)],
)
def test_documents_are_cut_at_the_longest_input(most, mean):
    assert LengthBin(50, 150, 2).tokens(most) == pytest.approx(2 * mean)


@pytest.mark.parametrize(
    ("fields", "documents", "query"),
    [
        ({}, 3000 * 50 + 1000 * 200, 22),
        ({"max_tokens": 100}, 3000 * 50 + 1000 * 100, 22),
        # Windows read documents whole, and what overlaps twice.
        ({"windows": {"tokens": 100, "overlap": 20}}, 350_000 * 100 / 80, 22),
        # Of documents of 100 to 300 tokens, 175 on average: 150 up to 200, and 200 from there on.
        (
            {"windows": {"tokens": 100, "overlap": 20, "keep": "head-and-tail"}},
            3000 * 50 + 1000 * 175,
            22,
        ),
        ({"backend": "colbert", "query_tokens": 32}, 350_000, 32),
    ],
)
def test_a_model_reads_what_its_entry_says_of_documents_spread_over_their_bins(
    fields, documents, query
):
    # 3,000 of 0 to 100 tokens, 1,000 of 100 to 300; half of the 4,000 are asked for 2 questions.
    texts = texts_of(POSIR)
    assert (texts.n_documents, texts.n_queries, texts.n_texts) == (4000, 4000, 8000)
    assert texts.tokens(encoder(**fields)) == documents + 4000 * query


@pytest.mark.parametrize(
    ("unit", "language", "tokens"),
    [
        ("tokens", "eng-Latn", 3000 * 50 + 1000 * 200),
        ("words", "eng-Latn", (3000 * 50 + 1000 * 200) * 4 / 3),
        ("chars", "eng-Latn", (3000 * 50 + 1000 * 200) / 4),
        ("chars", "zho-Hans", (3000 * 50 + 1000 * 200) / 1.5),
    ],
)
def test_lengths_become_tokens(unit, language, tokens):
    section = POSIR | {"language": language, "sample": SAMPLE | {"unit": unit}}
    texts = texts_of(section, language)
    assert texts.tokens(encoder(max_tokens=4096)) - 4000 * 22 == pytest.approx(tokens, abs=1)


@pytest.mark.parametrize(
    ("fields", "vectors"),
    [
        ({}, 8000),
        ({"scoring": "maxsim"}, 350_000 + 4000 * 22),  # one per token
        ({"backend": "colbert", "query_tokens": 32}, 350_000 + 4000 * 32),
        ({"backend": "flag-embedding", "vectors": "multi-vector"}, 350_000 + 4000 * 22),
        # Windows of 100, 80 apart. 3,000 documents up to 100 tokens have one; 1,000 of 100 to 300
        # a second one all, a third one above 180 tokens (60 %), a fourth above 260 (20 %).
        ({"windows": {"tokens": 100, "overlap": 20}}, 3000 + 1000 * 2.8 + 4000),
        ({"windows": {"tokens": 100, "overlap": 20, "pool": "mean"}}, 8000),
        (
            {"windows": {"tokens": 100, "overlap": 20, "keep": "head-and-tail"}},
            3000 + 1000 * 2 + 4000,
        ),
        ({"late_chunking": {"tokens": 100, "overlap": 20}}, 3000 + 1000 * 2.8 + 4000),
    ],
)
def test_the_store_holds_a_vector_for_each_text_window_or_token(fields, vectors):
    plain, half = (config_of(POSIR, storage=kind).encoding for kind in ("float32", "float16"))
    texts = texts_of(POSIR)
    assert texts.store_bytes(encoder(dim=384, **fields), plain) == vectors * 384 * 4
    assert texts.store_bytes(encoder(dim=384, **fields), half) == vectors * 384 * 2


def test_without_dimensions_or_vectors_of_ours_the_store_is_not_known():
    sparse = encoder(backend="sparse-encoder", dim=384)
    for entry in (encoder(), sparse, parse_model({"backend": "bm25s"})):
        assert texts_of(POSIR).store_bytes(entry, config_of(POSIR).encoding) is None
    bounded = encoder(backend="sparse-encoder", max_terms=100)
    half = config_of(POSIR, storage="float16").encoding
    assert texts_of(POSIR).store_bytes(bounded, half) == 8000 * 100 * 3 * 2


def test_domains_of_a_language_add_up_and_translations_are_longer():
    corpora = [
        {"domain": "law", "source": DOCS},
        {"domain": "medicine", "source": DOCS},
        {"domain": "law", "source": DOCS, "language": "zho-Hans"},
    ]
    section = POSIR | {"corpora": corpora, "translate": LLM | {"to": ["deu-Latn"]}}
    del section["source"]
    counts = {name: texts_of(section, name).n_documents for name in ("eng-Latn", "zho-Hans")}
    assert counts == {"eng-Latn": 8000, "zho-Hans": 4000}
    english, german = texts_of(section), texts_of(section, "deu-Latn")
    assert german.n_texts == english.n_texts
    queries = english.n_queries * 22
    assert german.tokens(encoder()) - queries == 1.5 * (english.tokens(encoder()) - queries)


def test_a_release_has_the_papers_numbers():
    texts = texts_of(RELEASE)
    assert (texts.n_documents, texts.n_queries) == (2 * 55_902, 2 * 1_360)
    # Bins of 256 tokens, 3:3:3:3:2:2:2:2: (3 x 2,048 + 2 x 6,144) / 20 = 921.6 on average.
    mean = (texts.tokens(encoder(max_tokens=4096)) - 2720 * 22) / texts.n_documents
    assert mean == pytest.approx(921.6, abs=0.01)
    german = texts_of(RELEASE, "deu-Latn")
    mean = (german.tokens(encoder(max_tokens=4096)) - 2720 * 22) / german.n_documents
    assert mean == pytest.approx(1413, rel=0.03)  # as the paper's averages have it


def test_domains_that_are_not_listed_are_given():
    section = {key: value for key, value in RELEASE.items() if key != "domains"}
    assert texts_of(section) is None
    assert texts_of(section, n_domains=3).n_documents == 3 * 55_902


@pytest.mark.parametrize(
    "section",
    [
        POSIR | {"sample": {"edges": [0, 100]}},
        {"recipe": "known_item", "source": DOCS},
    ],
)
def test_unknown_sizes_are_one_job(section):
    plan = plan_of(section)
    assert plan.planned("mine", "eng-Latn") is None
    assert plan.shards["mine", "large", "eng-Latn"] == ["1-of-1"]
    assert jobs.threads(plan, "mine", "eng-Latn") == 2
    assert jobs.encode_minutes(plan, "mine", "large", "eng-Latn") == 240


LARGE = POSIR | {"sample": {"unit": "tokens", "edges": [0, 1000], "n_documents": 12_000_000}}
# 12 M documents of 500 tokens and 12 M queries of 22 are 6.264e9 tokens; 2 x 1e8 operations each
# are 1.2528e18; at 1e14 a second 12,528 s, 208.8 minutes.


@pytest.mark.parametrize(
    ("fields", "gpu_tflops", "minutes"),
    [
        ({}, 100, 208.8),
        ({}, 200, 104.4),
        ({"backend": "vllm", "vllm": {"gpus": 4}}, 100, 52.2),
        ({"parameters_m": None}, 100, None),
        ({"embedding_parameters_m": 25}, 100, 0.75 * 208.8),
    ],
)
def test_gpu_minutes_are_two_operations_per_parameter_and_token(fields, gpu_tflops, minutes):
    found = texts_of(LARGE).gpu_minutes(
        encoder(max_tokens=2048, **fields), config_of(LARGE, gpu_tflops=gpu_tflops).encoding
    )
    assert found == (minutes and pytest.approx(minutes))
    static = {"backend": "static-embeddings", "checkpoint": "owner/name", "parameters_m": 9000}
    assert texts_of(LARGE).gpu_minutes(parse_model(static), config_of(LARGE).encoding) == 0


@pytest.mark.parametrize(
    ("encoding", "shards"),
    [
        ({}, 7),  # 208.8 / 30 = 6.96
        ({"minutes_per_shard": 60}, 4),
        ({"minutes_per_shard": 1000}, 1),
        ({"max_shards": 3}, 3),
        ({"minutes_per_shard": 10}, 20),  # 21 would be below ten minutes
        ({"gpu_tflops": 20_000}, 1),  # a minute in all
        ({"shards": 5}, 5),
    ],
)
def test_shards_aim_at_the_minutes_set(encoding, shards):
    settings = config_of(LARGE, **encoding).encoding
    minutes = texts_of(LARGE).gpu_minutes(encoder(max_tokens=2048), settings)
    assert shards_of_minutes(settings, minutes) == shards


def plan_of(section, **encoding):
    given = {
        "benchmarks": {"mine": section},
        "models": ["bm25", "large"],
        "encoding": PLANNED | encoding,
        "registry": {"large": encoder(max_tokens=2048).model_dump()},
    }
    return make_plan(*load_config(given))


def test_one_view_alone_is_cut_into_shards():
    section = LARGE | {
        "verify": {"rerankers": ["embedded-bm25"]},
        "false_negatives": {
            "protocol": "posir",
            "recall": {"model": "bm25"},
            "rerankers": ["embedded-bm25"],
        },
        "tiny": {},
        "translate": LLM | {"to": ["deu-Latn"]},
    }
    plan = plan_of(section)
    views = ("mine", "mine-raw", "mine-tiny", "mine-candidates")
    for language, first in (("eng-Latn", "mine-raw"), ("deu-Latn", "mine")):
        shards = {name: plan.shards[name, "large", language] for name in views}
        assert [name for name, own in shards.items() if len(own) > 1] == [first]
    assert plan.prior_encoding_source("mine", "large", "eng-Latn") == ["mine-raw"]
