"""One line a goal, which tools/bench_page.py gathers from what a script prints."""

MARK = "goal | "


def tell_goal(what: str, measured: float, goal: float, *, at_most: bool = False) -> bool:
    """Print what was measured beside what was aimed at; return whether it was reached.

    Parameters
    ----------
    what
        What is measured, with its unit or what it is a ratio of; no ``|``.
    at_most
        Whether the goal is an upper bound; else it is a lower one.
    """
    is_reached = measured <= goal if at_most else measured >= goal
    bound = "at most" if at_most else "at least"
    verdict = "reached" if is_reached else "missed"
    print(f"{MARK}{what} | {measured:.2f} | {bound} {goal:g} | {verdict}", flush=True)
    return is_reached
