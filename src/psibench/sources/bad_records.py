"""Bad records of a source: they are left out and counted, up to a share of all records."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from psibench.errors import InputError
from psibench.tables.dropped import Dropped, Flow

logger = logging.getLogger("psibench")

WRONG_RECORD = "wrong_record"
_MESSAGES_SHOWN = 3
_ALL_WRONG = 20
"""Bad records without a good one from which the config is probably wrong, not the records."""


@dataclass
class BadRecords:
    """The bad records of one source.

    Attributes
    ----------
    max_share
        Share of the records that may be bad, rounded up to whole records, so at least one unless
        the share is 0.
    messages
        Message of each bad record, by id.
    n_good
        Number of good records; the reader counts them.
    """

    max_share: float
    messages: dict[str, str] = field(default_factory=dict)
    n_good: int = 0

    def add(self, record_id: str, error: InputError) -> None:
        """Add a bad record; raise its error if none is allowed, or if no record is good so far."""
        self.messages.setdefault(record_id, str(error))
        if self.max_share == 0 or (self.n_good == 0 and len(self.messages) >= _ALL_WRONG):
            raise error

    def refuse_many(self, *, where: str, unit: str) -> None:
        """Log how many records were left out.

        Raises InputError if these are more than `max_share` of all records, or if no record is
        good.
        """
        if not self.messages:
            return
        n_bad, messages = len(self.messages), list(self.messages.values())
        n_records = n_bad + self.n_good
        if not self.n_good:
            raise InputError("; ".join(messages[:_MESSAGES_SHOWN]))
        if n_bad > ceil(self.max_share * n_records):
            raise InputError(
                f"{where}: {n_bad:,} of {n_records:,} {unit} cannot be used, more than "
                f"max_bad_share: {self.max_share:g} allows. The first: "
                f"{'; '.join(messages[:_MESSAGES_SHOWN])}. Fix them, or set max_bad_share higher"
            )
        logger.warning(
            "%s: left out %d of %d %s (%s), the first: %s",
            *(where, n_bad, n_records, unit, WRONG_RECORD, messages[0]),
        )

    def dropped(self, stage: str, unit: str) -> Iterator[Dropped]:
        """Yield a dropped row for each bad record."""
        for record_id, message in self.messages.items():
            yield Dropped(stage, unit, record_id, None, WRONG_RECORD, message)

    def flow(self, stage: str, unit: str) -> tuple[tuple[str, Flow], ...]:
        """Return (stage, counts) for a stage that leaves bad records out; empty if none is bad."""
        n_read = self.n_good + len(self.messages)
        return ((stage, Flow(unit, n_read, self.n_good)),) if self.messages else ()
