"""The one exception that means "your input, not our bug"."""


class InputError(ValueError):
    """Bad input from the user: a file, a record, a config key or an argument.

    The message says what was found, what was allowed, where (file, record or key) and what to do.
    Commands print it without a traceback and exit with code 2.
    """
