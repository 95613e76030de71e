import pytest

from psibench.config.secrets import Secret, refuse_secrets
from psibench.errors import InputError
from psibench.plan.config import load_config

HIDDEN = "sk-" + "a1B2" * 6


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "OPENAI_API_KEY",
        "password",
        "hf_token",
        "aws_secret_access_key",
    ],
)
def test_a_key_named_like_a_secret_is_refused_without_its_value(key):
    with pytest.raises(InputError) as raised:
        refuse_secrets({"llm": {key: "open sesame"}})
    assert f"config key llm.{key}: holds a secret (value not shown)" in str(raised.value)
    assert "sesame" not in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [
        f"Bearer {HIDDEN}",
        f"https://host/v1?key={HIDDEN}",
        "hf_" + "x" * 20,
        "ghp_" + "x" * 20,
        "AKIA" + "A" * 16,
        "pa-" + "x" * 24,
    ],
)
def test_a_value_that_looks_like_a_secret_is_refused_without_showing_it(value):
    with pytest.raises(InputError) as raised:
        refuse_secrets({"a": {"b": ["x", value]}})
    assert "config key a.b[1]" in str(raised.value)
    assert value[-12:] not in str(raised.value)


@pytest.mark.parametrize(
    "config",
    [
        {"api_key_env": "OPENAI_API_KEY"},
        {"api_key": None},
        {"password": ""},
        {"length_tokenizer": "words", "tokens_per_batch": 5, "max_tokens": 9, "sort_key": "x"},
        {"max_token": 256, "query_token": 32},  # misspelt: an unknown key, no secret
        {"query_prompt": "risk-adjusted-returns-of-funds: "},
        {"revision": "0123456789abcdef0123456789abcdef01234567"},
    ],
)
def test_what_only_resembles_a_secret_passes(config):
    refuse_secrets(config)


def test_a_secret_is_refused_before_anything_else_is_shown():
    override = {"pathvars": {"x": HIDDEN}, "search": {"top_k": HIDDEN}}
    with pytest.raises(InputError) as raised:
        load_config(override)
    assert HIDDEN not in str(raised.value)


@pytest.mark.parametrize("value", ["", "k\u00e9y-of-a-server", "key\x07of-a-server"])
def test_a_key_that_no_server_has_is_refused_without_showing_it(value, monkeypatch):
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(InputError, match="environment variable MY_KEY") as raised:
        Secret.from_environment("MY_KEY")
    assert "of-a-server" not in str(raised.value)
