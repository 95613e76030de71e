import pytest

from psibench.text.paragraphs import is_prose, prose_paragraphs


def test_code_tables_signatures_and_boilerplate_are_left_out():
    text = """Reading things
**************

open_thing(name, mode='r') -> Thing
Open the *named* thing and return ``an object``
that reads from it [1].

   >>> open_thing('a')
   <Thing>

========= =======
Character Meaning
--------- -------
'r'       open for reading and nothing else of the kind
========= =======

* The thing is closed when the object that reads it is deleted.

Changed in version 3.9: the thing may also be given as a path of any kind.

   if x > 1: y[x] = (z, {1: 2}) or the + a - in * {}
"""
    assert prose_paragraphs(text) == [
        "Open the named thing and return an object that reads from it.",
        "The thing is closed when the object that reads it is deleted.",
    ]


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("This is a sentence that somebody has written down.", True),
        ("alpha beta gamma delta epsilon zeta eta", False),  # no function words
        ("x = {1: 2}; y = [a for a in (1, 2, 3) if a is not None]", False),  # too few letters
    ],
)
def test_prose_is_distinguished_from_lists_and_code(paragraph, expected):
    assert is_prose(paragraph) is expected
