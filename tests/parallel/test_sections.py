"""A transformer's blocks over sections of ranks (`layers`): the bits of one process, what travels, and who idles."""

from typing import Any

import pytest

from latentloom.parallel.sharding.sections.dealing import deal

# Two streams of tokens, one, skips past the border, sound beside a picture, a refiner before the blocks.
VARIANTS = ("flux", "wan", "hunyuan_dit", "ltx2", "minimax_h3")


def test_the_longest_section_is_as_short_as_can_be() -> None:
    assert deal([1, 1, 1, 1], 2, sizes=[1, 1, 1, 1]) == (0, 0, 1, 1)
    assert deal([3, 1, 1, 1], 2, sizes=[1, 1, 1, 1]) == (0, 1, 1, 1)
    assert deal([1, 1, 1, 3], 3, sizes=[9, 1, 1, 1]) == (0, 1, 1, 2)
    assert deal([1, 1, 1], 2, sizes=[2, 1, 1]) == (0, 1, 1)


def test_a_section_holds_no_more_than_its_device_has_room_for() -> None:
    times, sizes = [1, 1, 1, 1], [7, 7, 3, 3]
    assert deal(times, 2, sizes=sizes, rooms=[10, 20]) == (0, 1, 1, 1)
    assert deal(times, 2, sizes=sizes, rooms=[10, 10]) == ()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("plan", "blocks"), [("layers=2", 2), ("layers=4", 4)])
def test_sections_give_the_bits_of_one_process(ranks: Any, variant: str, plan: str, blocks: int) -> None:
    for case in ("both_odd", "masked_odd"):
        for found in filter(None, ranks.run("bodies.sections:cell", variant, case, plan, blocks)):
            assert found["difference"] == 0 and found["largest"] > 1
            assert found["is_restored"]
