"""What the readers are told is what the pictures show and the captions say."""

import random
from collections.abc import Iterable

import torch

from bobbin.latents import pack
from bobbin.train_vae import pictures
from bobbin.world.facts import COUNTS, UNCLEAR, CaptionReader, Reader, cells, slots
from bobbin.world.render import render_owned
from bobbin.world.scene import COLOURS, MATERIALS, RELATIONS, SHAPES, SIZES, Scene, Thing, sample

RED_CUBE = Thing(colour="red", shape="cube", material="metal", size="large")
BLUE_BALL = Thing(colour="blue", shape="sphere", material="matte", size="small")
SCENE = Scene(things=(BLUE_BALL, RED_CUBE), relations=("left of",), ground="sand")


def place(values: Iterable[str], value: str) -> int:
    return list(values).index(value) + 1


def test_cells_name_the_thing_in_their_middle() -> None:
    _, owner = render_owned([SCENE], random.Random(0), width=128, height=96)
    facts = cells([SCENE], owner)[0]
    assert facts.shape == (4, 12, 16)
    middle = owner[0, 4::8, 4::8]
    for slot, thing in enumerate(SCENE.things):
        expected = [place(COLOURS, thing.colour), place(SHAPES, thing.shape)]
        expected += [place(MATERIALS, thing.material), place(SIZES, thing.size)]
        assert (middle == slot).sum() > 1
        assert (facts[:, middle == slot] == torch.tensor(expected)[:, None]).all()
    assert (facts[:, middle == -1] == 0).all()
    assert (facts[:, middle == -2] == UNCLEAR).all()
    # The first thing stands left of the second.
    columns = [torch.nonzero(middle == slot)[:, 1].float().mean() for slot in (0, 1)]
    assert columns[0] < columns[1]


def test_cells_are_packed_as_latents_are() -> None:
    facts = torch.arange(2 * 4 * 6 * 8).reshape(2, 4, 6, 8)
    packed = pack(facts)
    assert packed.shape == (2, 12, 16)
    assert packed[1, 5].tolist() == facts[1, :, 2:4, 2:4].flatten().tolist()


def test_slots_say_what_a_caption_states_and_leave_open_what_it_does() -> None:
    told = Scene(things=(Thing(colour="red"), BLUE_BALL), relations=("behind",))
    first, second, third = slots([told])[0].tolist()
    relation = place(RELATIONS, "behind")
    assert first == [place(COLOURS, "red"), UNCLEAR, UNCLEAR, UNCLEAR, relation]
    assert second == [place(COLOURS, "blue"), place(SHAPES, "sphere"), 1, 1, 0]
    assert third == [0] * 5
    silent = Scene(things=told.things, relations=("",))
    assert slots([silent])[0, 0, -1] == 0


def test_a_crop_shows_a_thing_and_its_facts_go_with_its_pixels() -> None:
    whole = pictures(6, (128, 96), random.Random(1), "cpu")
    part = whole.cropped(64, random.Random(2))
    assert part.pixels.shape == (6, 3, 64, 64) and part.facts.shape == (6, 4, 8, 8)
    for i in range(6):
        found = [
            (y, x)
            for y in range(0, 96 - 64 + 1, 8)
            for x in range(0, 128 - 64 + 1, 8)
            if torch.equal(whole.pixels[i, :, y : y + 64, x : x + 64], part.pixels[i])
        ]
        assert found, "a crop begins at a cell's corner"
        y, x = found[0]
        assert torch.equal(whole.facts[i, :, y // 8 : y // 8 + 8, x // 8 : x // 8 + 8], part.facts[i])
        assert torch.equal(whole.is_thing[i, y : y + 64, x : x + 64], part.is_thing[i])
        assert part.is_thing[i].any()


def test_a_reader_leaves_out_what_is_unclear() -> None:
    torch.manual_seed(0)
    reader = Reader(8, COUNTS)
    features, facts = torch.randn(6, 8), torch.randint(0, 3, (6, 4))
    expected = reader.loss(features[:4], facts[:4])
    facts[4:] = UNCLEAR
    torch.testing.assert_close(reader.loss(features, facts), expected)
    assert reader.loss(features, torch.full_like(facts, UNCLEAR)) == 0


def test_a_caption_reader_teaches_both_encoders() -> None:
    torch.manual_seed(0)
    scenes = [sample(random.Random(0), counts=(1, 1, 1))] * 3
    states, pooled = (torch.randn(3, *size, requires_grad=True) for size in ((5, 16), (16,)))
    CaptionReader(16).loss(states, pooled, slots(scenes)).backward()
    for given in (states, pooled):
        assert given.grad is not None and given.grad.abs().sum() > 0.01
