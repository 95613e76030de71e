import pytest
from pydantic import ValidationError

from psibench.errors import InputError
from psibench.llm.request import Sampling
from psibench.llm.secret import Secret
from psibench.llm.sections import LlmSettings, SamplingSettings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"headers": {"Authorization": "Bearer x"}}, "Authorization is a secret"),
        ({"headers": {"Ocp-Apim-Subscription-Key": "x"}}, "Subscription-Key is a secret"),
        ({"headers": {"Cookie": "x"}}, "Cookie is a secret"),
        ({"model": "stand-in/rules"}, "models of the stand-in"),
        ({"backend": "stand-in"}, "models of the stand-in"),
        ({"backend": "vllm", "base_url": "http://localhost:8000/v1"}, "use backend 'openai'"),
        ({"budget_usd": 1.0}, "needs sampling.max_output_tokens"),
        ({"api_key": "x"}, "Extra inputs"),
        ({"asking": {"concurrency": 0}}, "greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        LlmSettings(**{"backend": "openai", "model": "m"} | changes)


def test_sampling_settings_become_part_of_a_request():
    chosen = SamplingSettings(temperature=1, stop=["END"], extra={"top_k": 3})
    assert chosen.to_sampling() == Sampling(temperature=1.0, stop=("END",), extra={"top_k": 3})
    assert SamplingSettings().to_sampling() == Sampling()


@pytest.mark.parametrize("value", ["sk-\u00e9t\u00e9", "sk-one\ntwo"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(monkeypatch, value):
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(InputError, match=r"SOME_KEY.*copy the key anew") as caught:
        Secret.from_environment("SOME_KEY")
    assert value not in str(caught.value)


@pytest.mark.parametrize("key", ["api_key_env", "key_env"])
def test_a_variable_that_is_not_set_is_told_with_the_config_key_that_names_it(monkeypatch, key):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(InputError, match=rf"\(config key {key}\) is not set.*set {key} to null"):
        Secret.from_environment("SOME_KEY", key=key)
