"""Records of a source that cannot be used: left out and counted, up to a share of all."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from psibench.errors import InputError
from psibench.tables.dropped import Dropped, Flow

logger = logging.getLogger("psibench")

WRONG_RECORD = "wrong_record"
NAMED = 3
ALL_WRONG = 20
"""So many records, none of them usable, are a wrong config rather than wrong records."""


@dataclass
class BadRecords:
    """The bad records of one source.

    Attributes
    ----------
    max_share
        Share of the records that may be bad, rounded up to whole records: one always may be, unless
        the share is 0.
    found
        Id and message of each.
    n_good
        Records that are not bad, counted by whoever reads them.
    """

    max_share: float
    messages: dict[str, str] = field(default_factory=dict)
    n_good: int = 0

    def add(self, record_id: str, error: InputError) -> None:
        """Leave a record out; raise its error where none may be, or none is good."""
        self.messages.setdefault(record_id, str(error))
        if self.max_share == 0 or (self.n_good == 0 and len(self.messages) >= ALL_WRONG):
            raise error

    def refuse_many(self, *, where: str, unit: str) -> None:
        """Log how many were left out.

        Raises InputError if that is more than `max_share` of all, or if none is good.
        """
        if not self.messages:
            return
        n_bad, messages = len(self.messages), list(self.messages.values())
        n_records = n_bad + self.n_good
        if not self.n_good:
            raise InputError("; ".join(messages[:NAMED]))
        if n_bad > ceil(self.max_share * n_records):
            raise InputError(
                f"{where}: {n_bad:,} of {n_records:,} {unit} cannot be used, more than "
                f"max_bad_share: {self.max_share:g} allows. The first: "
                f"{'; '.join(messages[:NAMED])}. Mend them, or set max_bad_share higher"
            )
        logger.warning(
            "%s: left out %d of %d %s (%s), the first: %s",
            *(where, n_bad, n_records, unit, WRONG_RECORD, messages[0]),
        )

    def dropped(self, stage: str, unit: str) -> Iterator[Dropped]:
        """Yield a row of each for the table of what was dropped."""
        for record_id, message in self.messages.items():
            yield Dropped(stage, unit, record_id, None, WRONG_RECORD, message)

    def flow(self, stage: str, unit: str) -> tuple[tuple[str, Flow], ...]:
        """Return the counts of a stage that leaves them out; none where no record is bad."""
        n_read = self.n_good + len(self.messages)
        return ((stage, Flow(unit, n_read, self.n_good)),) if self.messages else ()
