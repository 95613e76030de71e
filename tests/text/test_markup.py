"""Code, pictures and addresses in Markdown."""

import pytest

from psibench.text.markup import code_blocks, pictures_and_addresses


def cut(text, spans):
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n```python\nb\n```\nc", ["```python\nb\n```"]),
        ("a\n~~~\n```\n~~~\nc", ["~~~\n```\n~~~"]),
        ("a\n````md\n```sh\nb\n```\n````\nc", ["````md\n```sh\nb\n```\n````"]),
        ("a ```b``` c", []),
        ("```b``` c", []),
        ("a\n```sh\nb", ["```sh\nb"]),  # the passage ends inside the block
        ("b\n```\nc", ["b\n```\nc"]),  # it begins or ends inside a block: nobody knows
        ("b\n```\nc\n```sh\nd\n```\ne", ["b\n```", "```sh\nd\n```"]),  # it begins inside one
    ],
)
def test_fenced_code_is_found_also_in_cut_passages(text, blocks):
    assert cut(text, code_blocks(text)) == blocks


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "[![CI](https://a.b/ci.svg)](https://a.b/ci) x",
            ["[![CI](https://a.b/ci.svg)](https://a.b/ci)"],
        ),
        ('see ![a plot](plot.png "of it").', ['![a plot](plot.png "of it")']),
        ("[![CI][badge]][link] x", ["[![CI][badge]][link]"]),
        ("read [the guide](docs/guide_(new).md) first", ["(docs/guide_(new).md)"]),
        ("x\n[badge]: https://a.b/c.svg\ny", ["[badge]: https://a.b/c.svg"]),
        ("a [note] (not an address) b[0](1 2)", []),
    ],
)
def test_pictures_badges_and_link_targets_are_found(text, found):
    assert cut(text, pictures_and_addresses(text)) == found
