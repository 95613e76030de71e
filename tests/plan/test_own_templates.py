"""Allowed variables and replies of a user's template."""

import pytest

from psibench.errors import InputError
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan

PLAIN = {
    "summarise": ("[document]", "text", "{{ document }}"),
    "grade_relevance": ("[query, passage]", "integer", "{{ query }} {{ passage }}"),
    "judge_segment": ("[query, segment]", "text", "{{ query }} {{ segment }}"),
}


def write(path, task, variables, response, body):
    path.write_text(
        f"---\ntask: {task}\nvariables: {variables}\nresponse: {response}\n---\n## user\n{body}\n"
    )
    return str(path)


def plan_of(folder, llm="mine", **changed):
    """Plan a benchmark with three plain templates; ``changed`` replaces some templates."""
    prompts = {
        task: write(folder / f"{task}.md", task, *parts)
        for task, parts in (PLAIN | changed).items()
    }
    section = {
        "recipe": "fineweb_posq",
        "source": {"kind": "python_docs"},
        "summarise": {"llm": llm, "prompt": prompts["summarise"]},
        "generate_questions": {"llm": llm},
        "verify": {"rule": "margin", "rerankers": ["embedded-bm25"]},
        "grade": {"llm": llm, "prompt": prompts["grade_relevance"]},
        "audit": {"llm": llm, "prompt": prompts["judge_segment"]},
    }
    llms = {"mine": {"backend": "openai", "model": "mine-1", "base_url": "http://127.0.0.1:9/v1"}}
    config = {"benchmarks": {"b": section}, "models": ["bm25"], "llms": llms}
    return make_plan(*load_config(config))


def test_a_task_with_one_field_may_have_a_plain_reply(tmp_path):
    tasks = plan_of(tmp_path).benchmarks["b"].tasks
    forms = {name: asked.prompt.response.form for name, asked in tasks.items()}
    assert forms == {
        "summarise": "text",
        "generate_questions": "json",
        "grade_first": "integer",
        "grade_rest": "integer",
        "audit": "text",
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"summarise": ("[document]", "integer", "{{ document }}")},
            "a plain reply is one integer, but the task summarise reads summary (string); copy the "
            "response schema from ",
        ),
        (
            {"summarise": ("[document, words]", "text", "{{ document }} {{ words }}")},
            "has the variables document, words; allowed: document, max_words",
        ),
        (
            {"summarise": ("[document]", "{type: object}", "{{ document }}")},
            "copy that schema, or set `response: text` or `response: integer` for a plain reply",
        ),
    ],
)
def test_a_template_that_does_not_fit_its_task_is_refused(tmp_path, changed, words):
    with pytest.raises(InputError) as refused:
        plan_of(tmp_path, **changed)
    assert words in str(refused.value)


def test_a_stand_in_refuses_templates_with_plain_replies(tmp_path):
    with pytest.raises(InputError) as refused:
        plan_of(tmp_path, llm="stand-in")
    assert "task grade_first: " in str(refused.value)
    assert (
        "grade_relevance.md needs a plain reply, but 'stand-in' is a stand-in, which answers only "
        "the shipped templates. Name a language model, or remove `prompt`"
    ) in str(refused.value)
