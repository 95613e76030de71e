"""Config of a leaderboard made elsewhere, whose scores are set beside the models' own."""

from pydantic import Field

from psibench.config.base import Id, Section


class Leaderboard(Section):
    """A CSV file with one row per model and its score on another benchmark."""

    name: Id
    """Names its rows in results/leaderboards.csv."""
    path: str = Field(min_length=1)
    """The CSV file, relative to the working directory."""
    model_column: str = Field(default="model", min_length=1)
    """Column that names the model."""
    score_column: str = Field(default="score", min_length=1)
    """Column of the score, larger is better; a model without a score is left out."""
    aliases: dict[str, Id] = Field(default_factory=dict)
    """Model ids by the leaderboard's names, where these differ in more than upper and lower
    case."""
