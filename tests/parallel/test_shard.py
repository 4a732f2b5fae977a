"""A transformer sharded from outside and taken back: nothing stays behind, whatever happened; bad input is refused."""

import pytest

from support.by_hand import cells
from support.ranks import Ranks


def test_attaching_a_hundred_times_leaves_the_bare_model_as_it_was(ranks: Ranks) -> None:
    for found in ranks.run("bodies.rank:attached_again", 100)[:2]:
        assert found == {"bits": True, "hooks": True, "seen": True, "stack": 0}


def test_one_rank_needs_no_hook(ranks: Ranks) -> None:
    assert all(all(found) for found in ranks.run("bodies.rank:alone"))


@pytest.mark.parametrize("kind", ["error", "interrupt"])
def test_a_forward_that_fails_leaves_no_mode_behind_and_the_next_is_right(ranks: Ranks, kind: str) -> None:
    for found in ranks.run("bodies.rank:failing", kind)[:2]:
        assert (found["inside"], found["after"]) == (0, 0) and found["difference"] <= 1e-5
        assert found["left"] == 0 or kind == "interrupt", "of which torch tells no hook: the next forward clears up"


def test_a_forward_that_fails_leaves_the_modes_of_others_alone(ranks: Ranks) -> None:
    for said, num_modes in ranks.run("bodies.rank:failing_in_a_mode")[:2]:
        assert "timestep differs between the ranks" in said
        assert num_modes == 1


def test_a_block_that_another_model_shares_is_left_alone_there(ranks: Ranks) -> None:
    assert ranks.run("bodies.rank:block_of_two_models")[:2] == [[True, True]] * 2


def test_attention_of_another_thread_is_left_alone(ranks: Ranks) -> None:
    for found in ranks.run("bodies.rank:neighbour")[:2]:
        assert found["other"]
        assert "an attention call with 5 queries and 5 keys" in found["this"]


MOMENTS = ("before", "after", "loaded")  # the last through load_lora_adapter
PLANS = ("allgather=2,text=replicated", "ulysses=2,ring=2", "ulysses=2")


@pytest.mark.parametrize(("plan", "moment"), cells(PLANS, MOMENTS, here=[*zip(PLANS, MOMENTS, strict=True)]))
def test_a_lora_put_on_before_or_after_sharding_gives_what_it_gives_on_one_process(
    ranks: Ranks, plan: str, moment: str
) -> None:
    for found in filter(None, ranks.run("bodies.rank:with_lora", plan, moment)):
        assert found["changed"] > 0.1  # so that the LoRA is seen to work
        assert max(found["difference"], found["without"]) <= 1e-5


def test_bad_input_is_one_error_on_every_rank_that_names_it_and_the_remedy(ranks: Ranks) -> None:
    expected = {
        "degrees": ("plan ulysses=3 uses 3 ranks, but 4 were started", "equal to the number of ranks"),
        "strategy": ("'usp=4' is no axis", "write it like cfg=2,ulysses=2,ring=2"),
        "class": ("no split plan for Linear", "run it on one device"),
        "mesh": ("the mesh was made for plan ulysses=4", "make one for this plan"),
        "diffusers": ("carries diffusers' own parallel config", "load it without enable_parallelism"),
        "twice": ("is sharded already", "call remove() on the handle"),
        "inputs": ("hidden_states differs between the ranks", "the same seed"),
        "shapes": ("hidden_states differs between the ranks", "the same seed"),
        "gradients": ("gradients are on", "torch.no_grad()"),
        "good": ("True",),
        "attention": ("an attention call with 50 queries and 50 keys is none that its split plan describes", "add the"),
        "attention_like_rank_0": ("attention call", "run it on one device, or add the call to the split plan"),
        "afterwards": ("True",),
    }
    for found in ranks.run("bodies.rank:refusals"):
        assert found.keys() == expected.keys()
        missing = [(name, part) for name, parts in expected.items() for part in parts if part not in found[name]]
        assert not missing, {name: found[name] for name, _ in missing}
