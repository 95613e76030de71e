import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from llm_helpers import MODEL, ask, items, request

from psibench.errors import InputError
from psibench.llm import expected
from psibench.llm.answer_store import AnswerStore
from psibench.llm.expected import (
    RequestCounter,
    count_tokens,
    count_tokens_or_embedded,
    estimate_requests,
    expansion,
    expected_reply,
    infer_total,
)
from psibench.llm.prompts import load_prompt
from psibench.llm.request import Sampling
from psibench.llm.sections import LlmSettings
from psibench.llm.standin.completion import answer_directly
from psibench.sources import reach

PROMPTS = Path(__file__).resolve().parents[2] / "config" / "prompts"
STAND_IN = LlmSettings(backend="stand-in", model=MODEL, tokenizer="stand-in")
DOCUMENT = "Copper was mined near Falun. " * 3 + "The mine closed in 1992. Its pit is a museum now."


def proposal(sample=0, **sampling):
    prompt = load_prompt(PROMPTS / "propose_questions.md")
    values = {"document": DOCUMENT, "position": "end", "n_questions": 2}
    messages = prompt.render(values)
    wanted = request(
        messages=messages, response=prompt.response, sample=sample, sampling=Sampling(**sampling)
    )
    return prompt, values, wanted


def test_the_stand_in_answers_in_process_as_its_server_does(tmp_path):
    asked = [proposal(sample, seed=7, max_output_tokens=500)[2] for sample in range(3)]
    wanted = [replace(one, request=asked[n]) for n, one in enumerate(items(3))]
    ask(wanted, tmp_path)
    store = AnswerStore(tmp_path)
    for one in asked:
        direct, served = answer_directly(one), store.get(one.key)
        assert (direct.text, direct.usage, direct.model) == (
            served.text,
            served.usage,
            served.model,
        )


def test_another_model_is_expected_to_reply_like_the_example_at_the_items_size():
    prompt, values, wanted = proposal()
    llm = LlmSettings(backend="openai", model="m")
    reply = expected_reply(wanted, values, prompt, llm)
    assert (reply.source, reply.output_tokens) == ("example", None)
    assert reply.value["questions"] == prompt.example.value["questions"][:2]


def plain(folder, header, **values):
    """A request of a template with a plain reply, and what it is expected to come to."""
    (folder / "own.md").write_text(f"---\n{header}\n---\n## user\n{{{{ document }}}}\n")
    prompt = load_prompt(folder / "own.md")
    wanted = request(messages=prompt.render(prompt.used(values)), response=prompt.response)
    return wanted, expected_reply(wanted, values, prompt, LlmSettings(backend="openai", model="m"))


def test_a_plain_reply_is_expected_like_the_example_without_json(tmp_path):
    header = "task: summarise\nvariables: [document]\nresponse: text"
    own = "\nreply_example: A mine shut.\nreply_size: {of: document, share: 0.5}"
    wanted, reply = plain(tmp_path, header + own, document="one two three four", max_words=9)
    assert (reply.text, reply.value, reply.source) == ("A mine", {"summary": "A mine"}, "example")
    assert RequestCounter("words", "openai").count_requests([wanted]) == [
        4 + expected.MESSAGE_TOKENS  # no schema is sent
    ]
    # Without one it is the shipped template's: a share of the document, at most max_words.
    _, usual = plain(tmp_path, header, document="word " * 100, max_words=9)
    assert usual.text.startswith("The article follows")
    assert len(usual.text.split()) == 9


def test_a_tokenizer_out_of_reach_is_an_error_at_once_or_the_embedded_one(monkeypatch):
    monkeypatch.setattr(reach, "hub_is_reachable", lambda: False)
    with pytest.raises(InputError, match="'nobody/nothing': not on this machine, and the hub"):
        count_tokens("nobody/nothing")
    with pytest.raises(InputError, match="'no such name': neither a folder nor a name on the hub"):
        count_tokens("no such name")
    count, used = count_tokens_or_embedded("nobody/nothing")
    assert used == "embedded:all-MiniLM-L6-v2"
    assert count(["a word"]).tolist() == [2]


@pytest.mark.parametrize(
    ("backend", "more"),
    [("stand-in", 0), ("openai", "schema"), ("vllm", "messages")],
)
def test_requests_are_counted_with_what_the_server_puts_around_them(backend, more):
    _, _, wanted = proposal()
    counter = RequestCounter("words", backend)
    n_words = sum(len(message.content.split()) for message in wanted.messages)
    around = 2 * expected.MESSAGE_TOKENS if more else 0  # system and user
    (n_schema,) = counter.count_texts([json.dumps(wanted.response.schema)])
    total = n_words + around + (n_schema if more == "schema" else 0)
    assert counter.count_requests([wanted, wanted]) == [total, total]


def translation():
    prompt = load_prompt(PROMPTS / "translate.md")
    values = {"text": DOCUMENT, "kind": "passage"}
    values |= {"source_language": "English", "target_language": "German"}
    return prompt, values, request(messages=prompt.render(values), response=prompt.response)


def test_a_translation_is_as_long_as_its_language_makes_it():
    prompt, values, wanted = translation()
    reply = expected_reply(wanted, values, prompt, LlmSettings(backend="openai", model="m"))
    assert reply.source == "expansion"
    assert len(reply.value["translation"]) == round(1387.3 / 922.4 * len(DOCUMENT))
    assert expected_reply(wanted, values, prompt, STAND_IN).source == "stand-in"


@pytest.mark.parametrize(
    ("source", "target", "factor"),
    [
        ("English", "German", 1387.3 / 922.4),
        ("German", "English", 922.4 / 1387.3),
        ("English", "Russian (Cyrillic)", 1539.2 / 922.4),
        ("English", "Finnish", 1.4),
        ("Chinese (Simplified)", "English", 1.4),
    ],
)
def test_a_translation_grows_by_its_languages(source, target, factor):
    assert expansion(source, target) == pytest.approx(factor)


def test_a_shard_s_distinct_requests_are_counted_and_repeats_are_not():
    asked = [proposal(sample)[1:] for sample in (0, 1, 1)]
    prompt = proposal()[0]
    counter = RequestCounter("stand-in", "stand-in")
    replies = [expected_reply(r, v, prompt, STAND_IN).output_tokens for v, r in asked[:2]]
    assert estimate_requests(asked, prompt, STAND_IN) == {
        "requests": 2,
        "input_tokens": sum(counter.count_requests([r for _, r in asked[:2]])),
        "output_tokens": sum(replies),
    }
    assert set(estimate_requests([], prompt, STAND_IN).values()) == {0}


def test_a_large_shard_is_estimated_from_a_part_within_two_per_cent():
    prompt = load_prompt(PROMPTS / "propose_questions.md")
    asked = []
    for n in range(600):
        values = {"document": f"Mine {n}. " + DOCUMENT * (1 + n % 7), "position": "end"}
        values["n_questions"] = 2
        wanted = request(messages=prompt.render(values), response=prompt.response)
        asked.append((values, wanted))
    part, whole = (estimate_requests(asked, prompt, STAND_IN, most=n) for n in (100, 1000))
    assert part["requests"] == whole["requests"] == 600
    assert part["input_tokens"] == pytest.approx(whole["input_tokens"], rel=0.02)
    assert part["output_tokens"] == pytest.approx(whole["output_tokens"], rel=0.05)


def test_a_shard_whose_replies_nobody_can_tell_is_taken_at_the_bound():
    prompt, values, wanted = proposal()
    llm = LlmSettings(backend="openai", model="m", sampling={"max_output_tokens": 1000})
    bare = replace(prompt, example=None)
    assert estimate_requests([(values, wanted)], bare, llm)["output_tokens"] == 1000


def test_a_total_is_inferred_by_regression_on_known_sizes():
    sizes = np.array([1.0, 2.0, 4.0])
    # Counts are 3 + 2 x size, so ten of 50 in all make 10 x 3 + 2 x 50.
    assert infer_total(sizes, 3 + 2 * sizes, 10, 50.0) == 130
    assert infer_total(sizes, np.array([5.0, 5.0, 8.0]), 3, 99.0) == 18  # all are counted
    assert infer_total(np.array([2.0, 2.0]), np.array([4.0, 6.0]), 10, 20.0) == 50  # one size
    assert infer_total(np.array([]), np.array([]), 0, 0.0) == 0
