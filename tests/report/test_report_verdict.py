import pytest
from report_tables import psi_row

from psibench.report.inputs import BenchmarkInfo, ModelInfo
from psibench.report.verdict import Verdict, holm, verdict

BENCHMARK = BenchmarkInfo("docs", "known_item")
MODELS = {
    "a": ModelInfo("a", "dense"),
    "b": ModelInfo("b", "dense"),
    "blind": ModelInfo("blind", "dense", "", "position-blind"),
    "cut": ModelInfo("cut", "dense", "", "truncating"),
}


def _verdict(*rows: dict) -> Verdict:
    return verdict(BENCHMARK, "thirds", rows, models=MODELS)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        # smallest times 3, next times 2, largest times 1, never falling
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.6, 0.9], [1.0, 1.0]),
    ],
)
def test_holm_steps_down(given: list[float], expected: list[float]) -> None:
    assert holm(given) == pytest.approx(expected)


def test_a_model_beyond_chance_is_named_with_its_buckets() -> None:
    found = _verdict(psi_row("a"), psi_row("b", psi=0.03, psi_p=0.5))
    text = " ".join(found.sentences)
    assert found.finding == "bias"
    assert "1 of 2 models depends on position beyond chance" in text
    assert "best in \u2068beginning\u2069, worst in \u2068end\u2069" in text
    assert "Not distinguishable from chance: \u2068b\u2069 (PSI 0.030, p = 0.500)." in text


def test_nothing_beyond_chance_does_not_claim_absence_of_bias() -> None:
    found = _verdict(psi_row("a", psi_p=0.2), psi_row("b", psi_p=0.3))
    assert found.finding == "chance"
    assert found.sentences[0].startswith("No model's PSI stands out")
    assert "does not show that there is no position bias" in found.sentences[2]


def test_p_just_below_the_level_does_not_survive_the_number_of_models() -> None:
    # 0.03 alone passes; adjusted for two models it is 0.06
    assert _verdict(psi_row("a", psi_p=0.03)).finding == "bias"
    assert _verdict(psi_row("a", psi_p=0.03), psi_row("b", psi_p=0.9)).finding == "chance"


def test_controls_are_not_counted_and_speak_for_themselves() -> None:
    found = _verdict(psi_row("a"), psi_row("blind", psi=0.1), psi_row("cut", psi_p=0.7))
    text = " ".join(found.sentences)
    assert text.startswith("1 of 1 models")
    assert "read the others against 0.100, not against 0" in text
    assert "The truncating control does not stand out" in text


def test_undefined_psi_is_reported_with_its_reason() -> None:
    row = psi_row("b", psi=None, psi_p=None, mean=0.0, mean_of_buckets=0.0)
    assert "every bucket scores 0" in " ".join(_verdict(psi_row("a"), row).sentences)


def test_no_rows_is_an_empty_verdict() -> None:
    assert verdict(BENCHMARK, None, [], models=MODELS).finding == "empty"
