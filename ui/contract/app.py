"""Apps: workflows as forms of their own, as their owner is told of the link, and as whoever opens it sees them."""

from __future__ import annotations

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


class AppForm(Answer):
    """All that whoever opens an app is told of it: nothing of nodes and links."""

    name: str
    description: str
    version: int
    groups: list[AppGroup]
