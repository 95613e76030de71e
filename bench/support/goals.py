"""Prints one line per goal; tools/bench_page.py collects these lines."""

MARK = "goal | "


def tell_goal(what: str, measured: float, goal: float, *, at_most: bool = False) -> bool:
    """Print a measurement with its goal; return whether the goal is reached.

    Parameters
    ----------
    what
        Name of the measurement, with its unit or the two sides of a ratio; without ``|``.
    at_most
        Whether the goal is an upper bound instead of a lower one.
    """
    is_reached = measured <= goal if at_most else measured >= goal
    bound = "at most" if at_most else "at least"
    verdict = "reached" if is_reached else "missed"
    print(f"{MARK}{what} | {measured:.2f} | {bound} {goal:g} | {verdict}", flush=True)
    return is_reached
