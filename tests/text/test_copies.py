import pytest

from psibench.text.copies import has_most_of, is_copied

PASSAGE = (
    "The river rises in the northern hills and flows through three towns before it reaches the "
    "sea. Salmon return to it every autumn."
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("flows through three towns before it reaches the sea", True),
        ("Flows through  three towns, before it reaches the sea?", True),
        ("salmon return to it every autumn", False),  # six words
        # 5 of 6 runs are copied: too few for a question, enough for a statement.
        ("Query: hills and flows through three towns before it reaches the sea?", False),
        ("Query: hills and flows through three towns before it reaches the sea", True),
        ("Where does the river that flows through the northern hills rise?", False),
    ],
)
def test_query_is_copied_if_its_runs_are_in_the_passage(query, expected):
    assert is_copied(query, PASSAGE) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("A biologist who studies the return of salmon to northern rivers.", True),
        ("I am a biologist who studies the return of salmon to rivers", True),
        ("the return of salmon to northern rivers", False),
        ("Where do salmon return to?", False),
    ],
)
def test_query_repeats_a_persona_if_it_has_most_of_it(query, expected):
    persona = "A biologist who studies the return of salmon to northern rivers"
    assert has_most_of(query, persona) == expected


def test_short_persona_is_only_repeated_as_a_whole():
    assert has_most_of("a poet from cork.", "A poet from Cork")
    assert not has_most_of("Who is a poet from Cork?", "A poet from Cork")
