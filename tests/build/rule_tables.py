"""How many examples hypothesis draws where each of them makes frames."""

from hypothesis import settings

examples = settings(deadline=None, max_examples=60)  # frames take milliseconds each
