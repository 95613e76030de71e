"""A job for the tests of faults: ask items, print a line per outcome.

python asking_job.py SETTINGS_JSON STORE N_ITEMS
"""

import logging
import sys

from llm_helpers import items, shorten_pauses

from psibench.cluster.job import job
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings
from psibench.stopping import watched_stop


def main() -> None:
    text, store, n_items = sys.argv[1:]
    settings = LlmSettings.model_validate_json(text)
    shorten_pauses()
    with job(), watched_stop() as stop:
        logging.getLogger().setLevel(logging.WARNING)
        totals = ask_all(
            items(int(n_items), model=settings.model),
            settings,
            store=store,
            on_outcome=lambda outcome: print(outcome.item_id, outcome.status, flush=True),
            check_stop=stop.check,
        )
    print("asked", totals.n_replies, "from store", totals.n_from_store, flush=True)


if __name__ == "__main__":
    main()
