"""Gates: tests, bounds and results of cells, from sums by document."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from psibench.metrics.flips import sign_flips
from psibench.metrics.gate import (
    FAILS,
    PASSES,
    UNCLEAR,
    halvings,
    judge,
    measure_losses,
    worst,
)

ROOT = Path(__file__).parents[2]


def one_cell(losses, limit=0.02):
    """A gate on the mean of one query per document."""
    sums = np.array(losses, dtype=float)[:, None]
    return measure_losses(sums, np.ones_like(sums), limit)


def thirds(losses, limit=0.02):
    """A gate on the mean and on thirds; losses (n_documents, 3), a query each."""
    sums = np.column_stack([losses.sum(axis=1), losses])
    weights = np.column_stack([np.full(len(losses), 3.0), np.ones_like(losses)])
    return measure_losses(sums, weights, limit)


def test_few_documents_have_all_their_sign_flips_once():
    flips = np.concatenate(list(sign_flips(5)))
    assert len({tuple(row) for row in flips}) == len(flips) == 2**5
    assert (flips[0] == 1).all()


def test_random_flips_begin_with_the_data():
    flips = np.concatenate(list(sign_flips(20, n_flips=999)))
    assert flips.shape == (1000, 20)
    assert (flips[0] == 1).all()
    assert set(np.unique(flips)) == {-1.0, 1.0}


def test_few_documents_get_the_exact_p_of_sign_flips():
    # Eight documents, seven lost .1 and one gained .1: a sum of .6 or more has 1 + 8 of 256 flips.
    assert one_cell([0.1] * 7 + [-0.1]).p == pytest.approx([9 / 256])


def test_a_gain_is_no_loss():
    found = one_cell([-0.1] * 10)
    assert found.p == [1.0]
    assert found.value == pytest.approx([-0.1])


def test_four_documents_cannot_show_any_loss():
    found = one_cell([0.5] * 4)  # p is 1/16
    assert np.isinf(found.shown_from).all()
    assert found.high == [1.0]
    assert judge(found, "fail-if-worse", 0.02, 4) == [UNCLEAR]
    assert np.isfinite(one_cell([0.5] * 5).shown_from).all()  # p is 1/32


def test_a_cell_pays_for_the_other_cells_of_its_family():
    # The last third lost in all of five documents, the others differ by chance.
    losses = np.array([[0.3, -0.2, 0.1], [-0.2, 0.3, 0.1], [0.2, 0.2, 0.1], [-0.3, -0.3, 0.1]] * 2)
    found = thirds(losses)
    assert found.p[3] >= one_cell(losses[:, 2]).p[0] == 1 / 256
    assert found.p[3] == found.p.min()
    assert (found.p[[0, 1, 2]] >= found.p[3]).all()


def test_cells_of_equal_differences_cost_nothing():
    losses = np.repeat([[0.1]] * 7 + [[-0.1]], 3, axis=1)
    assert thirds(losses).p == pytest.approx([9 / 256] * 4)


def test_order_of_documents_and_cells_does_not_matter():
    rng = np.random.default_rng(0)
    sums, weights = rng.normal(0.1, 0.2, (10, 4)), rng.integers(1, 4, (10, 4)).astype(float)
    rows, columns = rng.permutation(10), rng.permutation(4)
    found = measure_losses(sums, weights, 0.02)
    other = measure_losses(sums[rows][:, columns], weights[rows][:, columns], 0.02)
    for name in ("value", "p", "high", "shown_from", "needed_to_show", "needed_to_exclude"):
        assert getattr(other, name) == pytest.approx(getattr(found, name)[columns])


def test_the_smallest_loss_shown_follows_from_the_spread():
    # Deviations of .1: v sum w = 1.645 sqrt(100 (.1^2 + v^2)) gives v = .0167.
    found = one_cell([0.1, -0.1] * 50)
    assert found.shown_from == pytest.approx([0.0167], abs=0.001)
    # A loss somewhat larger is significant, and one somewhat smaller is not.
    assert one_cell(np.tile([0.1, -0.1], 50) + 0.019).p[0] < 0.05
    assert one_cell(np.tile([0.1, -0.1], 50) + 0.014).p[0] > 0.05


def test_equal_scores_do_not_exclude_a_loss_elsewhere():
    # None of 60 documents differs: up to 1 - .05^(1/60) = .049 of all documents may (one-sided).
    found = one_cell([0.0] * 60)
    assert 0.049 <= found.high[0] <= 0.06
    assert judge(found, "fail-if-worse", 0.02, 60) == [PASSES]
    assert judge(found, "within", 0.02, 60) == [UNCLEAR]
    assert 60 * found.high[0] / 0.02 == pytest.approx(found.needed_to_exclude[0])


@pytest.mark.parametrize(
    ("mean", "spread", "shown", "within"),
    [
        pytest.param(0.0, 0.05, PASSES, PASSES, id="equal"),
        pytest.param(0.03, 0.05, FAILS, FAILS, id="lost"),
        pytest.param(0.015, 0.05, PASSES, FAILS, id="a tolerated loss, but .02 is possible"),
        pytest.param(0.0, 0.5, UNCLEAR, UNCLEAR, id="too noisy"),
        pytest.param(0.03, 0.5, UNCLEAR, UNCLEAR, id="lost by chance or not"),
        pytest.param(-0.05, 0.05, PASSES, PASSES, id="gained"),
        pytest.param(-0.3, 0.5, PASSES, PASSES, id="gained, with noise"),
    ],
)
def test_both_gates_decide_by_loss_and_spread(mean, spread, shown, within):
    losses = one_cell(mean + np.tile([spread, -spread], 50))
    assert judge(losses, "fail-if-worse", 0.02, 100) == [shown]
    assert judge(losses, "within", 0.02, 100) == [within]


def test_the_worst_cell_decides():
    assert worst([PASSES, UNCLEAR, FAILS]) == FAILS
    assert worst([PASSES, UNCLEAR]) == UNCLEAR
    assert worst([PASSES]) == PASSES


def test_documents_that_suffice_grow_with_the_square():
    losses = np.tile([0.3, -0.3], 50)
    wide, narrow = one_cell(losses, 0.04), one_cell(losses, 0.02)
    assert narrow.needed_to_show == pytest.approx(4 * wide.needed_to_show)
    # 1.25 (1.645 .3 / .02)^2, and (1.645 + .842)^2 (.3 / .02)^2 to exclude the loss
    assert narrow.needed_to_show == pytest.approx([761], abs=1)
    assert narrow.needed_to_exclude == pytest.approx([1391], abs=1)


def test_halves_of_a_run_rarely_fail_the_gate():
    rng = np.random.default_rng(0)
    scores = rng.choice([1.0, 0.63, 0.5, 0.0], (40, 3)) * rng.random((40, 1))
    sums = np.column_stack([scores.sum(axis=1), scores])
    weights = np.column_stack([np.full(40, 3.0), np.ones_like(scores)])
    found = halvings(sums, weights, "fail-if-worse", 0.001, n_halvings=200)
    assert found.total() == 200
    assert found[FAILS] <= 20  # .05 of 200, and three standard errors
    assert halvings(sums, weights, "fail-if-worse", 0.9, n_halvings=5) == {PASSES: 5}


# --- The study's small form ---------------------------------------------------------------------


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies" / "gate"))
    monkeypatch.delitem(sys.modules, "simulate", raising=False)
    yield import_module("simulate")
    sys.modules.pop("simulate", None)


@pytest.mark.parametrize("documents", [8, 25, 60])
def test_equal_systems_fail_in_one_of_twenty_data_sets(study, documents):
    world = study.World(documents)
    found = study.simulate(world, "fail-if-worse", 0.001, n=200, rng=np.random.default_rng(1))
    assert found.fails <= 0.10  # .05, and three standard errors


def test_a_lost_third_fails_or_is_not_told(study):
    world = study.World(200, lost=0.2)
    found = study.simulate(world, "fail-if-worse", 0.05, n=40, rng=np.random.default_rng(1))
    assert found.fails >= 0.9
    few = study.simulate(
        study.World(15, lost=0.075), "fail-if-worse", 0.05, n=40, rng=np.random.default_rng(1)
    )
    assert few.passes == 0


def test_a_loss_of_the_limit_is_rarely_excluded(study):
    world = study.World(300, lost=0.05)
    found = study.simulate(world, "within", 0.05, n=200, rng=np.random.default_rng(1))
    assert found.passes <= 0.10
    equal = study.simulate(study.World(400), "within", 0.05, n=40, rng=np.random.default_rng(1))
    assert equal.passes >= 0.8
