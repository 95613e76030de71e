from datetime import date

import pytest
from pydantic import ValidationError

from psibench.config.secrets import Secret
from psibench.errors import InputError
from psibench.llm.sections import LlmSettings, Price, load_llms, load_prices, price_of
from psibench.llm.usage import Usage
from psibench.plan.config import load_config

POSIR = {
    "recipe": "posir",
    "source": {"kind": "files", "paths": ["texts"]},
    "propose_questions": {"llm": "gpt-4o-mini"},
    "locate_span": {"llm": "mine"},
}
MINE = {"backend": "openai", "model": "m", "base_url": "http://localhost:8000/v1"}
PRICE = {"input_usd": 1.0, "output_usd": 2.0, "as_of": "2026-01-31"}


def load(**changes):
    override = {"benchmarks": {"b": POSIR}, "llms": {"mine": MINE}} | changes
    return load_config(override)[0]


SINCE = {"retired": {"since": "2026-10-11", "instead": "take that"}}


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (date(2026, 10, 10), (False, "ends on 2026-10-11: take that")),
        (date(2026, 10, 11), (True, "not served since 2026-10-11: take that")),
    ],
)
def test_model_is_served_until_its_retirement(today, said):
    assert LlmSettings(**MINE | SINCE).retirement(today) == said
    assert LlmSettings(**MINE).retirement(today) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"backend": "file", "model": "file/x"},
        {"backend": "file", "model": "x", "file": "a.jsonl"},
        {"model": "file/x"},
        {"backend": "command", "model": "command/x"},
        {"backend": "command", "model": "x", "command": ["a"]},
        {"command": ["a"]},
    ],
)
def test_only_outside_translators_have_a_file_or_a_command(changes):
    with pytest.raises(ValidationError, match=r"backend (file|command) needs `(file|command)`"):
        LlmSettings(**MINE | {"base_url": None} | changes)


def test_unknown_language_model_is_refused_with_known_ones():
    words = (
        r"benchmarks\.b\.locate_span\.llm: unknown language model 'mine'\. Supported: .*gpt-4o-mini"
    )
    with pytest.raises(InputError, match=words):
        load(llms={})


def test_a_budget_needs_a_price():
    limited = MINE | {"budget_usd": 5.0, "sampling": {"max_output_tokens": 100}}
    with pytest.raises(InputError, match=r"llms\.mine\.budget_usd: no price for model 'm'"):
        load(llms={"mine": limited})
    assert load(llms={"mine": limited}, prices={"m": PRICE}).llms["mine"].budget_usd == 5.0


def test_shipped_paid_models_have_a_dated_price_with_source():
    prices = load_prices()
    for llm in load_llms().values():
        if llm.backend != "vllm":
            price = price_of(llm.model, prices)
            assert price.source
            assert price.batch_share < 1 or llm.backend != "openai-batch"


def test_shipped_models_have_valid_sampling_for_their_servers():
    for llm in load_llms().values():
        sampling = llm.sampling
        # A summary or five questions fit.
        assert llm.backend == "stand-in" or (sampling.max_output_tokens or 0) >= 4096
        assert "generativelanguage" not in str(llm.base_url) or sampling.seed is None


# Settings of one model


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, "Authorization is a secret"),
        ({"headers": {"Ocp-Apim-Subscription-Key": "x"}}, "Subscription-Key is a secret"),
        ({"headers": {"Cookie": "x"}}, "Cookie is a secret"),
        ({"model": "stand-in/rules"}, "models of the backend stand-in"),
        ({"backend": "stand-in"}, "models of the backend stand-in"),
        ({"backend": "vllm", "base_url": "http://localhost:8000/v1"}, "use backend 'openai'"),
        ({"budget_usd": 1.0}, "needs sampling.max_output_tokens"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        LlmSettings(**{"backend": "openai", "model": "m"} | changes)


@pytest.mark.parametrize("key", ["api_key_env", "key_env"])
def test_unset_variable_is_reported_with_its_config_key(monkeypatch, key):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(InputError, match=rf"\(config key {key}\) is not set.*set {key} to null"):
        Secret.from_environment("SOME_KEY", key=key)


# Money


def test_cached_input_and_batches_cost_less():
    price = Price(**PRICE, cached_input_usd=0.1, batch_share=0.5)
    usage = Usage(1_000_000, 0, cached_input_tokens=400_000)
    assert price.cost(usage) == pytest.approx(0.64)  # 0.6 x 1 + 0.4 x 0.1
    assert price.cost(usage, is_batch=True) == pytest.approx(0.32)


def test_longest_matching_price_is_used():
    names = {"gpt-*": 1.0, "gpt-x": 2.0, "gpt-x-*": 3.0}
    prices = {name: Price(**PRICE | {"input_usd": usd}) for name, usd in names.items()}
    found = [price_of(name, prices).input_usd for name in ("gpt-x", "gpt-x-mini", "gpt-y")]
    assert found == [2.0, 3.0, 1.0]
    with pytest.raises(
        InputError, match=r"no price for model 'b'; priced: gpt-\*, gpt-x, gpt-x-\*"
    ):
        price_of("b", prices)
