"""Apps: workflows as forms of their own, as their owner is told of the link, and as whoever opens it sees them."""

from typing import Any

from ...nodes.preview.meant import Sizes
from ...pipelines.tokens.counter import TokenCount
from .answer import Answer
from .shown import CatalogInput


class App(Answer):
    """The link to an app, for the owner of its workflow."""

    token: str
    workflow_id: str
    name: str
    """As it was published, and so the next two."""
    version: int
    """Which the app runs, whatever is saved later."""
    published: float
    """Seconds since the epoch."""
    newest: int
    """The workflow's newest version by now."""


class AppGroup(Answer):
    """Settings under one heading; those in none have ""."""

    title: str
    fields: list[CatalogInput]


class AppValue(Answer):
    """Of a place in the workflow: what the setting of this name has, or the value that stands there."""

    setting: str = ""
    value: str = ""


class AppMask(Answer):
    """How a mask that is a setting is read, and the picture that it lies over, if there is one."""

    channel: AppValue
    picture: AppValue


class AppForm(Answer):
    """All that whoever opens an app is told of it: nothing of nodes and links."""

    name: str
    description: str
    version: int
    groups: list[AppGroup]
    masks: dict[str, AppMask]
    """The settings that are masks."""


class AppShape(Answer):
    """A setting is the height of a picture, and another one its width."""

    width: str
    sizes: Sizes
    """Which the model paints."""


class AppKnown(Answer):
    """What is known of an app's settings before a run."""

    values: dict[str, Any]
    """What 0, "" and "auto" will be."""
    shapes: dict[str, AppShape]


class AppTokens(Answer):
    tokens: dict[str, tuple[TokenCount, ...]]
    """What text encoders make of each setting that they read, the one with the least room first."""
