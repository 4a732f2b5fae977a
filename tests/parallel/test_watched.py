"""What a graph depends on besides its tensors: every change of it is seen, and blocks of a kind are alike."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.models.transformers.transformer_flux import FluxAttnProcessor
from torch import nn

from bodies.changes import CHANGES, flux_with_lora
from latentloom.parallel.sharding.graphs.watched import Watched
from support.cells import outputs


@pytest.fixture
def flux() -> tuple[Any, dict[str, Any]]:
    return flux_with_lora()


def blocks_of(model: Any) -> list[nn.Module]:
    return [*model.transformer_blocks, *model.single_transformer_blocks]


def of_blocks(model: Any) -> Callable[[], Any]:
    watched = [Watched(block) for block in blocks_of(model)]
    return lambda: [each.state() for each in watched]


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_is_another_state_and_back_again_the_first(flux: tuple[Any, Any], what: str) -> None:
    model, _ = flux
    change, back = CHANGES[what]
    for states in (of_blocks(model), Watched(model, by_address=True).state):
        before = states()
        undo = change(model)
        changed = states()
        assert changed != before
        back(model, undo)
        assert states() != changed
        assert states() == before or what == "q, k and v fused", "which leaves an attribute behind"


def test_as_long_as_nothing_changes_a_state_is_the_same_object_and_blocks_of_a_kind_have_equal_ones(
    flux: tuple[Any, dict[str, Any]],
) -> None:
    model, inputs = flux
    states = of_blocks(model)
    outputs(model, inputs)
    first = states()
    outputs(model, inputs)
    assert all(one is another for one, another in zip(first, states(), strict=True))
    assert len(set(first)) == 2
    model.transformer_blocks[1].attn.to_q.scaling["default"] = 9.0
    assert len(set(states())) == 3, "of one block alone"


def test_a_new_processor_of_the_same_kind_will_do_for_compiled_blocks_and_not_for_addresses(
    flux: tuple[Any, Any],
) -> None:
    model, _ = flux
    by_value, by_address = of_blocks(model), Watched(model, by_address=True)
    before = by_value(), by_address.state()
    model.set_attn_processor(FluxAttnProcessor())
    assert by_value() == before[0] and by_address.state() != before[1]


class Counted(nn.Module):
    """A module with one of everything that is looked at besides what the changes of FLUX meet."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.names, self.table = ["a"], {"x": [1]}
        self.processor: Any = FluxAttnProcessor()


def closing_over(factor: float) -> tuple[Callable[..., Any], Callable[[float], None]]:
    def hook(_: nn.Module, given: Any, output: torch.Tensor) -> torch.Tensor:
        return output * factor

    def put(other: float) -> None:
        nonlocal factor
        factor = other

    return hook, put


def hook_of(module: Counted) -> Callable[[], Any]:
    hook, put = closing_over(2.0)
    module.layer.register_forward_hook(hook)
    return lambda: put(3.0)


def hook_exchanged(module: Counted) -> Callable[[], Any]:
    handle = module.layer.register_forward_hook(closing_over(2.0)[0])

    def exchange() -> None:
        handle.remove()
        module.layer.register_forward_hook(closing_over(3.0)[0])

    return exchange


def half(module: Counted) -> Callable[[], Any]:
    return lambda: module.layer.half()


@pytest.mark.parametrize(
    "prepare",
    [
        lambda m: lambda: m.names.append("b"),
        lambda m: lambda: m.table["x"].append(2),
        lambda m: lambda: setattr(m.processor, "scale", 0.5),
        lambda m: lambda: setattr(m.layer, "forward", m.layer.forward),
        lambda m: lambda: m.layer.register_parameter("more", None),
        lambda m: lambda: m.layer.requires_grad_(False),
        lambda m: lambda: setattr(m, "layer", nn.Linear(2, 2, bias=False)),
        lambda m: lambda: m.layer.eval(),
        half,
        hook_of,
        hook_exchanged,
    ],
)
def test_what_is_written_into_in_place_is_seen_too(prepare: Callable[[Counted], Callable[[], Any]]) -> None:
    module = Counted()
    change = prepare(module)
    watched = [Watched(module), Watched(module, by_address=True)]
    before = [each.state() for each in watched]
    change()
    assert all(each.state() != old for each, old in zip(watched, before, strict=True))


def test_weights_elsewhere_are_another_state_by_address_only() -> None:
    module = Counted()
    by_value, by_address = Watched(module), Watched(module, by_address=True)
    before = by_value.state(), by_address.state()
    module.layer.weight.data = module.layer.weight.data.clone()
    assert by_value.state() is before[0] and by_address.state() != before[1]
