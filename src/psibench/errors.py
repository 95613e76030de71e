"""The exceptions that mean "your input, not our bug"."""

from typing import Self


class InputError(ValueError):
    """Bad input from the user: a file, a record, a config key or an argument.

    The message says what was found, what was allowed, where (file, record or key) and what to do.
    Commands print it without a traceback and exit with code 2.
    """

    def under(self, where: str) -> Self:
        """Return the same error with the place in front that it was found at."""
        return type(self)(f"{where}: {self}")


class MissingError(InputError):
    """A file or folder that a config names and that is not there, or not yet."""
