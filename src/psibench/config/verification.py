"""Config of verification: which rerankers check the candidates, and what they have to say."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from psibench.config.base import Id, Section, refuse_repeats, refuse_reserved

Panel = Annotated[list[Id], AfterValidator(refuse_repeats), AfterValidator(refuse_reserved)]


class VerifySection(Section):
    """What the verification of every recipe has."""

    rule: str
    rerankers: Panel = Field(min_length=1)
    """Ids of config/rerankers.yaml or of your own `rerankers`, the cheapest first: a query that
    fails under one of them is not shown to the next."""
    complete: bool = False
    """Score every query with every reranker, whether or not it is decided already: for studies of
    thresholds and of rerankers. The queries kept are the same."""
    balance: bool = False
    """Then downsample every position to the smallest one."""
    seed: int = Field(default=42, ge=0)
    """Seed of the downsampling."""

    @property
    def floor(self) -> float | None:
        """Margin below which a query is not scored further; None where the rule has none."""
        return None


class VerifyAgreement(VerifySection):
    """Every reranker puts the target third of the document first (PosQ, appendix A.2)."""

    rule: Literal["agreement"] = "agreement"
    """Without it: the rule of the recipe's paper, agreement for fineweb_posq."""
    balance: bool = True
    """Then downsample every position to the smallest one."""


class VerifyNecessity(VerifySection):
    """Every reranker scores the document higher with the evidence than without (PosIR, 2.3)."""

    rule: Literal["necessity"] = "necessity"
    """Without it: the rule of the recipe's paper, necessity for posir."""


class VerifyMargin(VerifySection):
    """Every reranker puts the target third ahead by a margin (Controlled, section 3.1.3)."""

    rule: Literal["margin"] = "margin"
    """Without it: the rule of the recipe's paper, margin for controlled."""
    threshold: float = Field(default=0.3, ge=-1, le=1)
    """Smallest lead of the target over the best other third, in scores from 0 to 1. A change
    scores nothing again."""

    @property
    def floor(self) -> float | None:
        """0, the lowest threshold of the margin table, or the threshold below it."""
        return None if self.complete else min(0.0, self.threshold)


Verify = Annotated[VerifyAgreement | VerifyNecessity | VerifyMargin, Field(discriminator="rule")]
