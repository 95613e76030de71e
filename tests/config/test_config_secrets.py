import logging

import pytest

from psibench.cluster.job import job
from psibench.config.secrets import Secret, plain_address, refuse_secrets, without_keys
from psibench.errors import InputError
from psibench.llm.sections import load_llms
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
        "Authorization",
        "openaiApiKey",
        "credentials",
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
        "AIza" + "Sy1a" * 9,
        "github_pat_" + "11ABCDEFG0" * 4,
        "xoxb-" + "1234567890-" * 2 + "abcdef",
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "abc_-4",
        "gsk_" + "a1B2" * 8,
        "-----BEGIN RSA PRIVATE KEY-----",
        "http://host/v1/" + HIDDEN + "/chat",
        "Bearer abc" + "123" * 4,
    ],
)
def test_a_value_that_looks_like_a_secret_is_refused_without_showing_it(value):
    with pytest.raises(InputError) as raised:
        refuse_secrets({"a": {"b": ["x", value]}})
    assert "config key a.b[1]" in str(raised.value)
    assert value[-12:] not in str(raised.value)


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"vllm": {"arguments": ["--port", "1", "--api-key", "swordfish"]}}, "vllm.arguments[2]"),
        ({"vllm": {"arguments": ["--api_key=swordfish"]}}, "vllm.arguments[0]"),
        ({"vllm": {"command": ["env", "VLLM_API_KEY=swordfish"]}}, "vllm.command[1]"),
        ({"sampling": {"extra": {"x": {"Authorization": "swordfish"}}}}, "extra.x.Authorization"),
        ({"headers": {HIDDEN: "swordfish"}}, "headers (a name in it)"),
        ({"a": {"api_key_env": "swordfish-0123456789"}}, "a.api_key_env"),
        ({"a": {"key_env": "3fa9c0d1e2b3a4958677deadbeef0123"}}, "a.key_env"),
        ({"a": {"key_env": "swordfishswordfishswordfish"}}, "a.key_env"),
        ({"a": {"key_env": HIDDEN}}, "a.key_env"),
    ],
)
def test_a_secret_is_found_wherever_a_config_can_hold_it(config, place):
    with pytest.raises(InputError) as raised:
        refuse_secrets(config)
    assert f"{place}: " in str(raised.value)
    shown = str(raised.value)
    assert not any(word in shown for word in ("swordfish", "3fa9c0d1", HIDDEN))


KEY_IN_PATH = "Zx81kQw93LmNop45RstUv67Wxyz"


def test_a_key_in_the_path_of_an_address_is_refused_and_hidden():
    entry = {
        "backend": "openai",
        "model": "m",
        "base_url": f"https://gate.example/{KEY_IN_PATH}/v1",
    }
    with pytest.raises(InputError, match=r"base_url: .*path seems to hold a key") as raised:
        load_llms({"a": entry})
    assert KEY_IN_PATH not in str(raised.value)
    assert without_keys(f"asked {entry['base_url']}") == "asked https://gate.example/[key]/v1"


@pytest.mark.parametrize(
    "address",
    [
        "https://api.cloudflare.com/client/v4/accounts/0123456789abcdef0123456789abcdef/ai/v1",
        "https://me.openai.azure.com/openai/deployments/gpt-4o-mini-2024-07-18/v1",
        "http://gpu-node:8000/models/Meta-Llama-3.1-70B-Instruct-AWQ-INT4/v1",
        "https://api.runpod.ai/v2/vllm-k3j9x2m1p0q8w7/openai/v1",
        "https://host/files/0123456789abcdef0123456789abcdef01234567/v1",
        "https://host/openai/deployments/Qwen25VL72BInstruct/v1",
        "https://host/models/BGEm3Finetuned20240115/v1",
    ],
)
def test_accounts_models_and_revisions_in_an_address_are_no_keys(address):
    assert plain_address(address) == address
    assert without_keys(address) == address


@pytest.mark.parametrize(
    "config",
    [
        {"api_key_env": "OPENAI_API_KEY"},
        {"api_key_env": "My_Key_2"},
        {"key_env": "KEY_FOR_GPT4O_AT_COMPANY2025"},
        {"arguments": ["--max-model-len", "8192", "--token-limit", "--max-token", "8", "tokens"]},
        {"arguments": ["--tokenizer=a/b", "--enable-auto-tool-choice", "PYTHONPATH=/a"]},
        {"query_prompt": "Bearer representing something: find what a standard bearer carries"},
        {"checkpoint": "perplexity-ai/pplx-embed-context-v1-0.6b-a-long-name-of-a-model"},
        {"api_key": None},
        {"password": ""},
        {"length_tokenizer": "words", "tokens_per_batch": 5, "max_tokens": 9, "sort_key": "x"},
        {"max_token": 256, "query_token": 32},  # misspelt: an unknown key, no secret
        {"query_prompt": "risk-adjusted-returns-of-funds: "},
        {"revision": "0123456789abcdef0123456789abcdef01234567"},
        {"checkpoint": "sk-multilingual-e5-base-finetuned"},
        {"paths": ["data/sk-wikipedia-passages-2024/a.jsonl", "pa-wikipedia_articles_20240101"]},
        {"name": "org/hf_documentation_dump", "chat_template_kwargs": {"think_end_token": "</t>"}},
        {"pad_token": "<pad>", "arguments": ["--reasoning-start-token", "<think>"]},
    ],
)
def test_what_only_resembles_a_secret_passes(config):
    refuse_secrets(config)


def test_a_variable_that_is_set_is_taken_whatever_its_name_looks_like(monkeypatch):
    monkeypatch.setenv("HuggingFaceHubToken", "swordfish")
    refuse_secrets({"key_env": "HuggingFaceHubToken"})
    assert Secret.from_environment("HuggingFaceHubToken").reveal() == "swordfish"


@pytest.mark.parametrize(
    "value",
    [
        "sk-0123abcd-45ef-6789-abcd-0123456789ab",
        "sk-ant-api03-" + "aB3-dE_f" * 3 + "Gh1jKlMn0pQr",
        "sk-proj-" + "a1B2" * 5,
        "sk-" + "0123456789abcdef" * 2,
    ],
)
def test_keys_with_dashes_are_keys_and_no_names(value):
    with pytest.raises(InputError, match="holds a secret"):
        refuse_secrets({"a": value})


def test_a_secret_is_refused_before_anything_else_is_shown():
    override = {"pathvars": {"x": HIDDEN}, "search": {"top_k": HIDDEN}}
    with pytest.raises(InputError) as raised:
        load_config(override)
    assert HIDDEN not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", ""),
        *((key, ".*copy the key again") for key in ("k\u00e9y-of-a-server", "key\x07of-a-server")),
        ("sk-one\ntwo-of-a-server", ".*copy the key again"),
    ],
)
def test_a_key_that_no_server_has_is_refused_without_showing_it(value, said, monkeypatch):
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(InputError, match=f"environment variable MY_KEY{said}") as raised:
        Secret.from_environment("MY_KEY")
    assert "of-a-server" not in str(raised.value)


def test_a_key_in_a_message_or_a_traceback_is_not_logged(tmp_path, capsys):
    log = tmp_path / "job.log"

    def fail():
        try:
            raise ValueError(f"Authorization: Bearer {HIDDEN}")
        except ValueError:
            logging.getLogger("psibench").exception("asked with %s", HIDDEN)
        raise InputError(f"no reply to {HIDDEN}")

    with pytest.raises(SystemExit), job(log):
        fail()
    written = log.read_text() + capsys.readouterr().err
    assert "no reply to [key]" in written
    assert "Authorization: Bearer [key]" in written
    assert HIDDEN not in written
