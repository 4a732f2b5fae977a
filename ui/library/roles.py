"""Which inputs of a workflow are its prompt, size, seed, pictures, mask and length: as its file declares them, or as
their names and kinds say.

A workflow declares them under `openai` in its `meta`, each as a param or as node.socket:

    "meta": {"openai": {"prompt": "prompt", "size": ["canvas.width", "canvas.height"], "seed": "seed",
                        "image": ["image"], "mask": "mask", "n": "canvas.batch",
                        "seconds": "seconds",                             an input that takes them, or
                        "frames": "canvas.frames", "fps": 16,             how many frames they are
                        "quality": {"low": {"steps": 4}},                 what each quality sets
                        "rounding": {"approximate": {"denoise.step_cache": "first_block"}}}}

What it does not declare is looked for among its params and, but for an app, which takes nothing but its settings,
among the inputs that have no wire.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...nodes.graph.graph import Graph, Link, ParamRef
from ...nodes.graph.ready import Ready
from ...nodes.graph.spec import InputSpec, NodeSpec
from ...nodes.graph.unfolding.subs import with_subs
from ...parallel.errors import BadInput
from ..contract.bodies import Value
from .app_form import fed, fields_of

KEY = "openai"
Rounding = Literal["none", "allowed", "approximate"]  # from the strictest on
Text = Annotated[str, Field(max_length=130)]
Values = dict[Text, Value]


class Declared(BaseModel):
    """What stands under `openai` in a workflow's `meta`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: Text = ""
    size: tuple[Text, Text] | tuple[()] = ()
    seed: Text = ""
    image: tuple[Text, ...] = ()
    mask: Text = ""
    n: Text = ""
    seconds: Text = ""
    frames: Text = ""
    fps: float = Field(default=0.0, ge=0)  # 0 is the model's
    quality: dict[Text, Values] = {}
    rounding: dict[Literal["allowed", "approximate"], Values] = {}


@dataclass(frozen=True)
class Place:
    """An input that may be set: by the name that sets it, and where the first socket is that it feeds."""

    name: str
    node: str
    socket: str
    spec: InputSpec
    owner: NodeSpec | None


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The inputs by what they are; "" and () are none."""

    declared: Declared
    makes: Literal["image", "video", ""]
    places: Mapping[str, Place]  # of all that may be set, by name

    def role_at(self, node: str, socket: str) -> str | None:
        """What an input is that a problem names: a param alone, or a socket."""
        mine = {place.name for place in self.places.values() if (place.node, place.socket) == (node, socket)}
        names = mine if node else {socket}
        told = self.declared.model_dump(exclude={"quality", "rounding", "fps"})
        for role, given in told.items():
            if (names - {""}) & set([given] if isinstance(given, str) else given):
                return {"frames": "seconds"}.get(role, role)
        return None


def roles_of(prepared: Ready, *, is_app: bool = False) -> Roles:
    """Raises `ValueError` for a declaration that is wrong."""
    graph = prepared.file
    try:
        said = Declared.model_validate(graph.meta.get(KEY, {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("meta", KEY, *first["loc"])))
        raise BadInput("{} of the workflow is wrong: {}; correct it", where, first["msg"].lower()) from None
    types = with_subs(graph, prepared.types)
    owners = {name: prepared.specs.get(name) or types.get(node.type) for name, node in graph.nodes.items()}
    params, free = list(_params(prepared, owners)), list(_free(graph, owners))
    there = {place.name: place for place in (*params, *free)}
    named = [said.prompt, *said.size, said.seed, *said.image, said.mask, said.n, said.seconds, said.frames]
    if missing := [name for name in named if name and name not in there]:
        raise BadInput(
            "meta.{} of the workflow names {}, which is no input that may be set; correct it", KEY, missing[0]
        )
    found = params if is_app else [*params, *free]

    def first(is_it: Callable[[Place], bool]) -> str:
        return next((place.name for place in found if is_it(place)), "")

    sides = first(_is_side("width")), first(_is_side("height"))
    guessed = {
        "prompt": first(lambda each: _is_text(each) and "prompt" in (each.name, each.socket)) or first(_is_prompt),
        "size": sides if all(sides) else (),
        "seed": first(lambda each: each.spec.widget == "seed" and _denoises(each))
        or first(lambda each: each.spec.widget == "seed"),
        "image": tuple(place.name for place in found if place.spec.widget == "picture"),
        "mask": first(lambda each: each.spec.widget == "mask"),
        "seconds": first(lambda each: each.name == "seconds" and each.spec.type in ("int", "float")),
        "frames": first(lambda each: each.spec.type == "int" and each.socket in ("frames", "num_frames")),
    }
    left = {role: name for role, name in guessed.items() if not getattr(said, role)}
    saved = {socket.type for spec in prepared.specs.values() if spec.is_output for socket in spec.inputs}
    makes = "video" if "Video" in saved else "image" if "Image" in saved else ""
    return Roles(declared=said.model_copy(update=left), makes=makes, places=there)


def _params(prepared: Ready, owners: Mapping[str, NodeSpec | None]) -> Iterator[Place]:
    at = {name: (node, socket) for name, node, socket in reversed([*fed(prepared.file)])}
    for name, spec in fields_of(prepared.file, prepared.types).items():
        node, socket = at.get(name, ("", name))
        yield Place(name, node, socket, spec, owners.get(node))


def _free(graph: Graph, owners: Mapping[str, NodeSpec | None]) -> Iterator[Place]:
    """Inputs of nodes that neither a wire nor a param feeds; of those that a for-each goes through none."""
    for name, node in graph.nodes.items():
        owner = owners[name]
        for socket in owner.inputs if owner else ():
            if socket.name not in node.each and not isinstance(node.inputs.get(socket.name), Link | ParamRef):
                yield Place(f"{name}.{socket.name}", name, socket.name, socket, owner)


def _is_text(place: Place) -> bool:
    return place.spec.type == "string" and "negative" not in f"{place.name} {place.socket}"


def _is_prompt(place: Place) -> bool:
    """A long text of something that makes anything: a note is none."""
    return _is_text(place) and place.spec.widget == "multiline" and bool(place.owner and place.owner.outputs)


def _is_side(side: str) -> Callable[[Place], bool]:
    """Of what a model paints, not of a picture that is cut or resized."""
    return lambda place: (
        place.socket == side
        and place.owner is not None
        and (place.owner.input("model") is not None or place.owner.chooser is not None)
    )


def _denoises(place: Place) -> bool:
    return place.owner is not None and (place.owner.denoises is not None or place.owner.chooser is not None)
