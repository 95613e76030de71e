import re

import pytest

from psibench.errors import InputError
from psibench.plan.config import load_config
from psibench.plan.paths import wildcard_patterns
from psibench.plan.plan import make_plan
from psibench.plan.summaries import ledger_places

DOCS = {"kind": "python_docs"}
STAND_IN = {"llm": "stand-in"}
MODELS = ["bm25", "minilm-static"]


def controlled(**changes):
    return {
        "recipe": "controlled",
        "source": DOCS,
        "choose_configuration": STAND_IN,
        "generate_positional_query": STAND_IN,
        **changes,
    }


def several(*places, **changes):
    corpora = [{"domain": d, "language": lang, "source": DOCS} for d, lang in places]
    return controlled(source=None, corpora=corpora, **changes)


def translate(*languages, **changes):
    return {"llm": "stand-in", "to": list(languages), **changes}


def compared(**llms):
    """The section of a quality check that compares translators."""
    return {**STAND_IN, "translators": {name: {"llm": llm} for name, llm in llms.items()}}


def plan_of(models=MODELS, **benchmarks):
    config, entries = load_config({"benchmarks": benchmarks, "models": models})
    return make_plan(config, entries)


def test_corpora_inherit_the_benchmarks_language_and_passages():
    corpora = [
        {"domain": "a", "source": DOCS},
        {"domain": "b", "source": DOCS, "passages": {"max_words": 90}},
    ]
    plan = plan_of(
        x=controlled(source=None, corpora=corpora, language="fra-Latn", passages={"max_words": 300})
    )
    places = plan.benchmarks["x"].places
    assert [(p.language, p.domain, p.passages.max_words) for p in places] == [
        ("fra-Latn", "a", 300),
        ("fra-Latn", "b", 90),
    ]
    section = plan.benchmarks["x"].section_at("fra-Latn", "b")
    assert (section.domain, section.corpora, section.passages.max_words) == ("b", None, 90)


def test_ids_of_several_domains_have_the_domain_as_prefix():
    plan = plan_of(
        one=several(("a", "eng-Latn"), ("a", "spa-Latn")),
        two=several(("a", "eng-Latn"), ("b", "eng-Latn")),
    )
    assert plan.benchmarks["one"].id_prefix("a") == ""
    assert plan.benchmarks["two"].id_prefix("b") == "b/"


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for language, domain in (("eng-Latn", "a"), ("eng-Latn", "b"), ("spa-Latn", "a")):
        for table in ("corpus", "queries", "qrels"):
            path = tmp_path / "release" / language / domain / table / "test.parquet"
            path.parent.mkdir(parents=True)
            path.touch()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"domains": ["a", "zz"]}, "no domains zz in the release; it has a, b"),
        ({"languages": ["fra-Latn"]}, "no languages fra-Latn in the release; it has eng-Latn"),
    ],
)
def test_missing_domains_and_languages_of_a_release_are_refused(release, wanted, message):
    section = {"recipe": "posir_release", "source": {"path": "release"}}
    with pytest.raises(InputError, match=message):
        plan_of(b=section | wanted)
    found = plan_of(b=section | {"domains": ["a"]})
    assert [found.named["b"].domains(one) for one in ("eng-Latn", "spa-Latn")] == [["a"], ["a"]]


def test_domains_may_differ_between_languages():
    places = [("a", "eng-Latn"), ("b", "eng-Latn"), ("b", "spa-Latn"), ("c", "spa-Latn")]
    plan = plan_of(x=several(*places, cross_lingual=["spa-Latn-eng-Latn"]))
    assert plan.named["x"].domains("eng-Latn") == ["a", "b"]
    assert plan.named["x"].domains("spa-Latn", "eng-Latn") == ["b"]
    assert plan.benchmarks["x"].pairs[-1] == ("spa-Latn", "eng-Latn")
    places = {place["lang"]: place["domains"] for place in ledger_places(plan, "x")}
    assert places == {"eng-Latn": ["a", "b"], "spa-Latn": ["b", "c"]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"": list("abcde")}),
        # two domains of 70,000 are 140,000 documents: below 150,000
        (
            {"sample": {"edges": [0, 9], "n_documents": 70_000}},
            {"/1-of-3": ["a"], "/2-of-3": ["b", "c"], "/3-of-3": ["d", "e"]},
        ),
        ({"parts": 9}, {f"/{n}-of-5": [name] for n, name in enumerate("abcde", start=1)}),
    ],
)
def test_a_large_language_is_cut_into_parts_of_whole_domains(changes, expected):
    places = [(name, "eng-Latn") for name in "abcde"]
    plan = plan_of(x=several(*places, translate=translate("spa-Latn", shards=7), **changes))
    own = plan.benchmarks["x"]
    assert own.parts == {"eng-Latn": expected, "spa-Latn": expected}
    assert [(place["lang"], place["domains"]) for place in ledger_places(plan, "x")] == [
        (lang, domains) for lang in ("eng-Latn", "spa-Latn") for domains in expected.values()
    ]
    for part, domains in expected.items():
        assert own.domains("spa-Latn", part=part) == domains
        assert own.task_tables("translate", "spa-Latn", part)["documents"] == [
            f"results/x/data/eng-Latn{part}/corpus.parquet"
        ]
    n_shards = -(-7 // len(expected))  # the parts share them
    assert own.task_shards("translate", "spa-Latn") == [
        f"/{n}-of-{n_shards}" if n_shards > 1 else "" for n in range(1, n_shards + 1)
    ]
    assert re.fullmatch(f"x{wildcard_patterns(plan)['parts']}", f"x{list(expected)[-1]}")


def test_a_translation_has_the_domains_of_its_source_language():
    places = [("a", "eng-Latn"), ("b", "eng-Latn"), ("a", "cmn-Hans")]
    plan = plan_of(x=several(*places, translate=translate("spa-Latn", "ara-Arab")))
    assert plan.benchmarks["x"].languages == ["eng-Latn", "cmn-Hans", "spa-Latn", "ara-Arab"]
    assert plan.named["x"].domains("ara-Arab") == ["a", "b"]
    assert plan.benchmarks["x"].pairs == [
        *((lang, lang) for lang in plan.benchmarks["x"].languages),
        ("spa-Latn", "eng-Latn"),
        ("ara-Arab", "eng-Latn"),
    ]
    none_crossed = several(*places, translate=translate("spa-Latn"), cross_lingual=[])
    assert plan_of(x=none_crossed).benchmarks["x"].pairs[-1] == ("spa-Latn", "spa-Latn")


def test_fewer_models_may_be_evaluated_on_translations():
    section = controlled(translate=translate("spa-Latn", models=["bm25", "minilm-maxp"]))
    runs = [(r["model"], r["query_lang"], r["corpus_lang"]) for r in plan_of(b=section).runs]
    assert runs == [
        ("bm25", "eng-Latn", "eng-Latn"),
        ("minilm-static", "eng-Latn", "eng-Latn"),
        ("bm25", "spa-Latn", "spa-Latn"),
        ("bm25", "spa-Latn", "eng-Latn"),
    ]


def test_a_language_may_be_native_or_translated_by_benchmark():
    plan = plan_of(x=controlled(translate=translate("spa-Latn")), y=controlled(language="spa-Latn"))
    assert plan.data_stage("x", "eng-Latn") == plan.data_stage("y", "spa-Latn") == "assemble"
    assert plan.data_stage("x", "spa-Latn") == "clean_translations"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (controlled(corpora=[{"domain": "a", "source": DOCS}]), "give either `source`"),
        (several(("a", "eng-Latn"), ("a", "eng-Latn")), "listed more than once: a in eng-Latn"),
        (several(("all", "eng-Latn")), "'all' means all domains"),
        (several(("a", "spa-Latn"), translate=translate("deu-Latn")), "which has no corpus"),
        (controlled(translate=translate("eng-Latn")), "already has a corpus in eng-Latn"),
        (controlled(cross_lingual=["spa-Latn-eng-Latn"]), "the benchmark has no spa-Latn"),
        (
            several(("a", "eng-Latn"), ("b", "spa-Latn"), cross_lingual=["spa-Latn-eng-Latn"]),
            "the languages share no domain",
        ),
        (
            controlled(translate=translate("deu-Latn", quality=compared(one="stand-in"))),
            "at least 2",
        ),
        (
            controlled(
                translate=translate("deu-Latn", quality=compared(one="stand-in", two="nobody"))
            ),
            "unknown language model 'nobody'",
        ),
    ],
)
def test_inconsistent_languages_and_translators_are_refused(section, message):
    with pytest.raises(InputError, match=re.escape(message)):
        plan_of(b=section)
