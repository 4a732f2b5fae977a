"""Doors: what installed packages and one folder of the owner's bring from outside, read once when the process starts.

    package  entry points latentloom.nodes, latentloom.families, latentloom.split_plans
    folder   modules with NODES, FAMILIES or SPLIT_PLANS    --nodes DIR, LATENTLOOM_NODES

Only whoever starts the process opens doors; no workflow, upload, request or setting does. One that does not open is
told by name, once, and everything else works. Ranks open the same ones, and refuse to work where they are not the same.
"""

import functools
import hashlib
import importlib
import importlib.machinery
import itertools
import logging
import os
import stat
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Literal

Group = Literal["nodes", "families", "split_plans"]

FOLDER = "latentloom_nodes"  # the package of the modules in the folder
MAX_FILES = 5000
HEAVY = ("torch", "diffusers", "transformers")

logger = logging.getLogger("latentloom")


@dataclass(frozen=True, kw_only=True)
class Door:
    """What a package or a module of the folder brings of one kind."""

    title: str  # who brings what, for messages
    package: str  # what its ids begin with
    source: str  # the distribution, or the module, by the name under which a workflow requires it
    version: str  # of the distribution, or the hash of the folder's sources
    load: Callable[[], Any]

    @property
    def origin(self) -> str:
        """Changes when what it brings may have changed."""
        return f"{self.source} {self.version}"


@dataclass(frozen=True, kw_only=True)
class _Folder:
    path: Path
    sha256: str
    modules: Mapping[str, types.ModuleType]


class _Process:
    """What this process has opened."""

    is_open = False
    folder: ClassVar[_Folder | None] = None
    # Of the families and split plans that were added, by their doors' titles.
    origins: dict[str, str] = {}  # noqa: RUF012 (of this process)


_LOCK = threading.RLock()


def open_doors(folder: Path | str | None = None) -> None:
    """Add families and split plans from outside to ours; the first call in a process counts.

    Without a folder it is the one that LATENTLOOM_NODES names; "" is none. Raises `ValueError` for a folder that is
    none, that others may write to, or that comes too late.
    """
    with _LOCK:
        if _Process.is_open:
            if folder and (_Process.folder is None or _Process.folder.path != Path(folder).resolve()):
                raise ValueError(f"the folder {folder} comes too late; name it with --nodes or LATENTLOOM_NODES")
            return
        folder = os.environ.get("LATENTLOOM_NODES") if folder is None else folder
        sha256 = hash_of(Path(folder)) if folder else ""
        # Before anything is imported: a package may ask for our tables when it is, and would open the doors again.
        _Process.is_open = True
        if folder:
            path = Path(folder).resolve()
            _Process.folder = _Folder(path=path, sha256=sha256, modules=_modules(path, sha256))
        for group, add in ADDED_BY.items():
            for door in doors(group):
                if enter(door, add):
                    _Process.origins[door.title] = door.origin


def doors(group: Group) -> list[Door]:
    """What there is of one kind, in the order of names; nothing is loaded yet."""
    return [*_installed(f"latentloom.{group}"), *(_in_folder(_Process.folder, group) if _Process.folder else ())]


def enter(door: Door, add: Callable[[Door, Any], None]) -> bool:
    """Load what a door brings and add it; what goes wrong is one warning, and then nothing of it is there."""
    before = set(sys.modules)
    try:
        add(door, door.load())
    except (Exception, SystemExit) as error:
        _tell_closed(door.title, error)
        return False
    if heavy := [name for name in HEAVY if name in sys.modules and name not in before]:
        logger.warning(
            "%s: %s is imported with it, which makes every command slow; import it inside the functions that need it",
            door.title,
            " and ".join(heavy),
        )
    return True


def order() -> dict[str, Any]:
    """What a rank has to `follow`."""
    return {"folder": str(_Process.folder.path) if _Process.folder else "", "origins": dict(_Process.origins)}


def follow(order: Mapping[str, Any]) -> None:
    """Open in a rank what its host has opened. Raises `ValueError` where that is not the same here."""
    open_doors(order["folder"])
    for title, origin in order["origins"].items():
        if (mine := _Process.origins.get(title, "not here")) != origin:
            raise ValueError(
                f"{title} was {origin} when latentloom was started, and is {mine} in a rank; have the same everywhere, "
                "and start again"
            )


def provided() -> dict[str, str]:
    """The modules of the folder, which workflows can require like packages; they have no version but 0."""
    return dict.fromkeys(_Process.folder.modules, "0") if _Process.folder else {}


def hash_of(folder: Path) -> str:
    """The hash of the sources in a folder. Raises `ValueError` where somebody else could have put code there."""
    digest = hashlib.sha256()
    try:
        if not folder.is_dir():
            raise ValueError(f"{_named(folder)} is not a folder; give one that exists")
        root = folder.resolve()
        _check_way(folder.absolute(), root)
        files = sorted(itertools.islice(_files(root), MAX_FILES + 1))
        if len(files) > MAX_FILES:
            raise ValueError(
                f"{_named(folder)} holds more than {MAX_FILES} files; give a folder with nothing but nodes"
            )
        for path in (root, *files):
            _check_owner(path, root)
            if path.is_file():
                content = path.read_bytes()
                digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    except (OSError, RuntimeError) as error:  # the latter for links in a circle
        raise ValueError(f"{_named(folder)} cannot be read ({error})") from None
    return digest.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    """What can be imported, folders too: not what is hidden (.git, editors' locks), nor bytecode, which is not used."""

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(root, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        yield from (Path(folder, name) for name in (*folders, *files) if not name.startswith("."))


def _check_way(folder: Path, root: Path) -> None:
    """Nobody else may put another folder in the place of this one, or lead elsewhere on the way to it."""
    if not hasattr(os, "geteuid"):
        return
    for path in dict.fromkeys((folder, *folder.parents, *root.parents)):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            if found.st_uid not in (0, os.geteuid()):
                raise ValueError(f"{_named(folder)}: the link {path} is another user's; name the folder itself")
        elif path not in (folder, root) and found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            raise ValueError(
                f"{_named(folder)}: every user may put another folder in its place, in {path}; take that right away: "
                f"chmod o-w {path}"
            )


def _check_owner(path: Path, root: Path) -> None:
    if not path.resolve().is_relative_to(root):
        raise ValueError(f"{_named(root)}: {path} leads out of the folder; copy there what it leads to")
    if not hasattr(os, "geteuid"):
        return  # on Windows, where files have lists of rights instead
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise ValueError(
            f"{_named(root)}: {path} belongs to another user, whose code would run as yours; copy what you trust"
        )
    if found.st_mode & stat.S_IWOTH:
        raise ValueError(f"{_named(root)}: every user may write to {path}; take that right away: chmod o-w {path}")


def _named(folder: Path) -> str:
    return f"the folder for nodes (--nodes, LATENTLOOM_NODES) {folder}"


class _Sources(importlib.machinery.SourceFileLoader):
    """Compiles the sources as they are now."""

    def path_stats(self, path: Any) -> Mapping[str, Any]:
        # Python then takes no bytecode: what lies beside may be of other sources of the same second and length, and is
        # not in the hash by which ranks know the folder.
        raise OSError


class _Finder:
    """Finds the modules of the folder for `import`."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(f"{FOLDER}."):
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found and isinstance(found.loader, importlib.machinery.SourceFileLoader):
            found.loader = _Sources(name, found.loader.path)
        return found


def _modules(path: Path, sha256: str) -> dict[str, types.ModuleType]:
    """Each module in the folder, by name; one that cannot be imported is told and left out."""
    package = types.ModuleType(FOLDER)
    package.__path__ = [str(path)]
    sys.modules[FOLDER] = package
    sys.meta_path.insert(0, _Finder)
    files = sorted(file for file in path.iterdir() if file.suffix == ".py" or (file / "__init__.py").is_file())
    found: dict[str, types.ModuleType] = {}
    for name in (file.stem for file in files if file.stem.isidentifier() and not file.stem.startswith("_")):
        load = functools.partial(importlib.import_module, f"{FOLDER}.{name}")
        door = Door(title=f"{name} in {path}", package=name, source=name, version=f"sha256:{sha256}", load=load)
        enter(door, lambda door, module: found.update({door.source: module}))
    return found


def _in_folder(folder: _Folder, group: Group) -> list[Door]:
    return [
        Door(
            title=f"{group.upper()} of {name} in {folder.path}",
            package=name,
            source=name,
            version=f"sha256:{folder.sha256}",
            load=functools.partial(getattr, module, group.upper()),
        )
        for name, module in folder.modules.items()
        if hasattr(module, group.upper())
    ]


# Of every package that is installed, to select from: looked through once, since doors open once in a process.
_points = functools.cache(entry_points)


def _installed(group: str) -> Iterator[Door]:
    point: EntryPoint
    for point in sorted(_points().select(group=group), key=lambda point: point.name):
        try:
            package = point.module.partition(".")[0]
        except AttributeError:
            _tell_closed(f"{group} {point.name}", ValueError(f"{point.value!r} is not like module:NAME; correct it"))
            continue
        source, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
        source = source or package
        title = f"{point.group} {point.name} of {source}"
        yield Door(title=title, package=package, source=source, version=version or "0", load=point.load)


def _add_families(door: Door, found: Any) -> None:
    """`found` is the module of a family, or several."""
    from .families import FAMILIES, OUTSIDE
    from .families.family import Family
    from .requests import Stage

    modules = list(found) if isinstance(found, Iterable) else [found]
    names, taken = set(FAMILIES), {pipeline for each in FAMILIES.values() for pipeline in each.pipelines}
    for module in modules:
        family = getattr(module, "FAMILY", None)
        if not isinstance(family, Family):
            raise ValueError(f"{module!r} has no FAMILY; give a module like those in latentloom.pipelines.families")
        if family.name in names or not taken.isdisjoint(family.pipelines):
            raise ValueError(f"family {family.name} claims what another one has; give it its own name and pipelines")
        if not f"{family.name}_".startswith(f"{door.package}_"):
            raise ValueError(f"family {family.name!r} is not called {door.package} or {door.package}_NAME; rename it")
        names.add(family.name)
        taken.update(family.pipelines)
        needed = {*typing.get_args(Stage)} - {"decode_audio", "upscale"} | family.components.keys()
        if lacking := sorted(name for name in needed if not callable(getattr(module, name, None))):
            raise ValueError(f"family {family.name} lacks {', '.join(lacking)}; add what a family's module has")
    for module in modules:
        FAMILIES[module.FAMILY.name] = module.FAMILY
        OUTSIDE[module.FAMILY.name] = (module, door.origin)


def _add_split_plans(door: Door, found: Any) -> None:
    from ..parallel.sharding.split_plan import SplitPlan
    from .split_plans import REFUSED, SPLIT_PLANS

    if not isinstance(found, Mapping) or not all(isinstance(plan, SplitPlan) for plan in found.values()):
        raise ValueError("it is no dict of SplitPlan by the names of classes, or by module.Class; give one")
    if taken := sorted(found.keys() & (SPLIT_PLANS.keys() | REFUSED.keys())):
        raise ValueError(f"it claims {', '.join(taken)}, which another one has; leave that out")
    SPLIT_PLANS.update(found)


# Who lets in what ranks need; nodes/registry.py lets in nodes.
ADDED_BY: Mapping[Group, Callable[[Door, Any], None]] = {"families": _add_families, "split_plans": _add_split_plans}


def _tell_closed(title: str, error: BaseException) -> None:
    logger.warning("%s: left out, because of %s: %s", title, type(error).__name__, error)
