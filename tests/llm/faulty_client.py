"""A client process for the fault tests: ask a number of items, print a line per outcome.

python faulty_client.py BASE_URL STORE N_ITEMS [CONCURRENCY]
"""

import sys

from llm_helpers import MODEL, items, shorten_pauses

from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings


def main() -> None:
    base_url, store, n_items, concurrency = (*sys.argv[1:], "8")[:4]
    asking = {"concurrency": int(concurrency)}
    shorten_pauses()
    chosen = LlmSettings(backend="stand-in", model=MODEL, base_url=base_url, asking=asking)
    totals = ask_all(
        items(int(n_items)),
        chosen,
        store=store,
        on_outcome=lambda outcome: print(outcome.item_id, outcome.status, flush=True),
    )
    print("asked", totals.n_asked, "from store", totals.n_from_store, flush=True)


if __name__ == "__main__":
    main()
