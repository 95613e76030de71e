"""Settings that an `ask` job reads from its config: model, section and prices."""

import pytest

from psibench.config.paths import PROMPTS
from psibench.generate.ask import read_asking
from psibench.plan.config import load_config, plain_config
from psibench.plan.plan import make_plan

LLM = {"llm": "stand-in"}
OWN = {"backend": "openai", "model": "mine", "asking": {"concurrency": 7}}
SECTION = {
    "recipe": "posir",
    "source": {"kind": "python_docs"},
    "propose_questions": {"llm": "own", "share": 0.5},
    "locate_span": LLM,
    "translate": LLM | {"to": ["deu-Latn"], "quality": {"llm": "own"}},
}
LANGUAGES = {"source_language": "eng-Latn", "target_language": "deu-Latn"}
PRICE = {"input_usd": 1.0, "output_usd": 2.0, "as_of": "2026-01-31"}
CONFIG = {
    "benchmarks": {"b": SECTION},
    "models": ["bm25"],
    "llms": {"own": OWN},
    "prices": {"mine": PRICE},
}


def asked(task: str):
    prompt = PROMPTS / f"{task}.md"
    config, entries = load_config(CONFIG)
    plan = make_plan(config, entries)
    composed = plain_config(config, {"llms": plan.llms})
    return read_asking(composed, benchmark="b", task=task, language="deu-Latn", prompt=prompt)


@pytest.mark.parametrize(
    ("task", "llm", "part"),
    [
        ("propose_questions", "own", {"share": 0.5}),
        ("locate_span", "stand-in", {}),
        ("judge_translation", "own", LANGUAGES),
    ],
)
def test_a_task_gets_its_model_and_section_from_the_config(task, llm, part):
    found, prices = asked(task)
    assert part.items() <= found.section.model_dump().items()
    assert (found.task.name, found.llm_id) == (task, llm)
    # The stand-in is shipped and has the default concurrency.
    assert found.llm.asking.concurrency == (7 if llm == "own" else 32)
    assert prices["mine"].output_usd == 2.0
    assert prices["gpt-4o-mini"].output_usd == 0.6  # a shipped price
