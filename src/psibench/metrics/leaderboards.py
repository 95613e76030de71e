"""Rank correlation of a leaderboard made elsewhere with the models' language averages."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from psibench.metrics.correlation import spearman
from psibench.metrics.language_averages import has_all_languages, joined_names
from psibench.tables.summary_schemas import LANGUAGE_AVERAGES, LEADERBOARDS

AVERAGES = ("mean", "mean_of_buckets")

_ROW = tuple(name for name in LANGUAGE_AVERAGES.key if name != "model")


def leaderboard_correlations(
    averages: pl.DataFrame, scores: Mapping[str, float], *, leaderboard: str
) -> pl.DataFrame:
    """Correlate models' averages with their scores on a leaderboard.

    Parameters
    ----------
    averages : frame in the columns of LANGUAGE_AVERAGES.
    scores : leaderboard score by model id; models the averages lack do not matter.
    leaderboard : its name.

    Returns
    -------
    frame in the columns of LEADERBOARDS
        For every row that models share (benchmark, setting, length bucket, metric, buckets,
        evidence) one row per kind of average. PosIR correlates with the mean over queries for all
        lengths together and with the mean over bucket means for a length bucket (table 2); both
        are here for both. Only models with all languages are ranked; `incomplete` names the
        others. Of the models with an average, those without a leaderboard score are named in
        `unmatched`.
    """
    rows: list[dict[str, Any]] = []
    for _, part in averages.sort("model").group_by(_ROW, maintain_order=True):
        author = part.select(joined_names("queries_by")).item()
        complete = part.filter(has_all_languages())
        incomplete = part.filter(~has_all_languages()).get_column("model").to_list()
        for average in AVERAGES:
            known = complete.drop_nulls(average)
            matched = known.filter(pl.col("model").is_in(list(scores)))
            models = matched.get_column("model").to_list()
            others = sorted(set(known.get_column("model")) - set(models))
            found = spearman(
                matched.get_column(average).to_numpy(), [scores[model] for model in models]
            )
            rows.append(
                {name: part.get_column(name)[0] for name in _ROW}
                | {"leaderboard": leaderboard, "average": average, "queries_by": author}
                | {"n_models": found.n, "spearman": found.value, "p": found.p}
                | {"models": ", ".join(models), "unmatched": ", ".join(others)}
                | {"incomplete": ", ".join(incomplete)}
            )
    schema = LEADERBOARDS.empty().schema
    columns = {name: [row[name] for row in rows] for name in LEADERBOARDS.column_names}
    return pl.DataFrame(columns, schema=schema)
