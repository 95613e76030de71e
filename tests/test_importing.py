"""What is imported within `importing` is never looked through for garbage again."""

import gc

from psibench.importing import importing


def test_objects_of_the_block_are_frozen_and_the_collector_is_on_again() -> None:
    before = gc.get_freeze_count()
    with importing():
        assert not gc.isenabled()
        made = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= before + len(made)
    assert not any(found is made for found in gc.get_objects())
