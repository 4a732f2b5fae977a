"""What the server was started with: where it listens, who may log in, and the folders it may touch.

Frozen, made from the options of `latentloom ui` before anything starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..nodes.files.picture_files import MAX_PIXELS
from ..nodes.files.workspace import Workspace
from ..nodes.headless.workflow_files import EXAMPLES
from ..pipelines.values import Place
from .access.address import Door, is_loopback, read_network
from .access.tokens import Tokens
from .store.quota import USER_BYTES
from .store.uploads import inputs_folder

SCRATCH = "loom-scratch"  # the folder in the data folder for files that are being looked at; emptied at every start
# The folder in the data folder for the owner's files of texts, of which Vary Text takes lines for all users.
WILDCARDS = "wildcards"
OWN_PATHS = ("/loom", "/gradio_api")
HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
MAX_WAITING = 1000
ROOT_PATH = re.compile(r"(https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)?(/[A-Za-z0-9._~/-]*)?")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Raises `ValueError` for an address that must not be opened as asked."""

    host: str = "127.0.0.1"
    port: int = 7860
    # Passwords by name; empty: there is no login, and all work is the user "local"'s.
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    models_dirs: tuple[Path, ...] = ()
    output_dir: Path
    data_dir: Path  # workflows, drafts, the queue and the index of results; one server at a time
    # Where results are kept for this server and whoever else is told so; without it, in the data folder.
    shared_cache_dir: Path | None = None
    place: Place = field(default_factory=Place)
    # Whether a sweep chooses into how many groups it puts the devices. With several users it would not: each change
    # starts the ranks anew, and their runs take turns.
    shares_out: bool = False
    root_path: str = ""  # where a proxy in front shows the page: a path such as /studio, or a whole URL
    # The most pixels of a picture that a user brings, or that a run reads or makes by resizing.
    max_pixels: int = MAX_PIXELS
    user_bytes: int = USER_BYTES  # how many bytes one user may keep
    allows_downloads: bool = False  # whether users may have models fetched from the hub
    tokens: Tokens | None = field(default=None, repr=False)  # of programs that may come in beside the users
    allowed_hosts: tuple[str, ...] = ()  # names beside its own by which the server may be asked for
    most_waiting: int = MAX_WAITING  # how many runs of one user may wait
    most_points: int = MAX_WAITING  # how many runs one request may start
    trusted_proxies: tuple[str, ...] = ()  # addresses or networks of proxies that tell in X-Forwarded-For who asks

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise ValueError(f"--port is {self.port}; give a number from 1 to 65535")
        if not self.has_auth and not is_loopback(self.host):
            raise ValueError(
                f"--host {self.host} opens the page to other machines, and there is no login; add --auth FILE with a "
                "line name:password for each user (latentloom serve: --tokens FILE), or leave --host out to stay on "
                "this machine"
            )
        for host in self.allowed_hosts:
            if HOST.fullmatch(host) is None:
                raise ValueError(
                    f"--allow-host is {host[:100]!r}; give a name without port, such as latentloom.farm.svc"
                )
        for option, most in (("--max-waiting", self.most_waiting), ("--max-runs", self.most_points)):
            if not 1 <= most <= MAX_WAITING:
                raise ValueError(f"{option} is {most}; give a number from 1 to {MAX_WAITING}")
        if ROOT_PATH.fullmatch(self.root_path) is None:
            raise ValueError(
                f"--root-path is {self.root_path!r}; give a path such as /studio, or what browsers see, such as "
                "https://media.example.org/studio"
            )
        if self.root_path in OWN_PATHS:
            raise ValueError(
                f"--root-path {self.root_path} is a path of the server's own; choose another, such as /studio"
            )
        for proxy in self.trusted_proxies:
            read_network(proxy)

    def reading(self, place: Place | None = None, *, user: str = "") -> Workspace:
        """What may be looked at for a workflow that does not run yet: as in a run, see `roots`."""
        roots, most = self.roots(user), self.max_pixels
        return Workspace(output_dir=self.output_dir, roots=roots, place=place or Place(), host="page", max_pixels=most)

    def roots(self, user: str = "") -> tuple[Path, ...]:
        """What runs may read: the inputs of a user, if one is named, the models of this server, its wildcards, and the
        pictures of templates."""
        own = [inputs_folder(self.data_dir, user)] if user else []
        folders = (*own, *self.models_dirs, self.data_dir / WILDCARDS, EXAMPLES)
        return tuple(folder.resolve() for folder in folders)

    @property
    def has_auth(self) -> bool:
        return bool(self.users) or self.tokens is not None

    @property
    def cache_dir(self) -> Path:
        return self.shared_cache_dir or self.data_dir / "cache"

    @property
    def door(self) -> Door:
        return Door(host=self.host, public_netloc=self.public_netloc, names=self.allowed_hosts)

    @property
    def public_netloc(self) -> str:
        """The host (and port) that browsers see behind a proxy; empty where nobody said."""
        return urlsplit(self.root_path).netloc if "://" in self.root_path else ""
