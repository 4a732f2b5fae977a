"""Everything that the page's routes stand on, and the order in which it opens and ends."""

import logging
import shutil
from pathlib import Path
from typing import IO

from ..nodes.headless.lifetime import InUse, claim
from ..parallel.machine.folders import private_folder, why_open
from ..pipelines.tokens.counter import Counter
from .downloads.downloads import Downloads
from .library.library import Library
from .live.live import Live
from .runs.hashes import Hashes
from .runs.results import Results
from .runs.runs import Runs
from .settings import SCRATCH, Settings
from .store.quota import Quota
from .store.uploads import Intake, Uploads
from .store.user_files import remove_leftovers
from .views.newest import Newest
from .worker.process import WorkerProcess

logger = logging.getLogger("latentloom")


class Server:
    """Opens a data folder, which no other server may have open. Raises `ValueError` where it cannot."""

    def __init__(self, settings: Settings, work: WorkerProcess | None = None) -> None:
        """Runs are made by `work`, which ends with this; without it, in this process."""
        self.settings = settings
        _make(settings.data_dir, "--data-dir", is_private=True)
        _make(settings.output_dir, "--output-dir")
        if why := why_open(settings.data_dir):
            logger.warning("%s", why)
        self._claim = _claimed(settings.data_dir)
        self.scratch = settings.data_dir / SCRATCH
        shutil.rmtree(self.scratch, ignore_errors=True)
        _make(self.scratch, "--data-dir", is_private=True)
        remove_leftovers(settings.data_dir)
        self.intake = Intake(self.scratch)
        self.live = Live()
        self.quota = quota = Quota(settings.data_dir, user_bytes=settings.user_bytes, counts_results=settings.has_auth)
        self.library = Library(settings, self.live, quota=quota)
        self.uploads = Uploads(settings.data_dir, max_pixels=settings.max_pixels, quota=quota)
        self.runs = Runs(settings, self.live, quota=quota, work=work)
        self.results = Results(settings, self.runs)
        self.hashes = Hashes(settings, self.runs)
        self.downloads = Downloads(settings, self.live, quota=quota)
        self.newest = Newest()
        self.counting = Newest()  # for what may take seconds, so that no check waits for it
        self.counter = Counter()

    def close(self) -> None:
        """Runs under way stop at their next step, and go first when the server starts again."""
        for part in (self.newest, self.counting, self.counter, self.hashes, self.downloads, self.runs):
            part.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self._claim.close()


def _claimed(folder: Path) -> IO[bytes]:
    try:
        return claim(folder / "server.lock", is_private=True)
    except InUse as error:
        raise ValueError(
            f"another server works with {folder} ({error.holder}); "
            "end it, or give this one a folder of its own with --data-dir"
        ) from None
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written ({error.strerror or error}); "
            "give a folder that you may write to, with --data-dir"
        ) from None


def _make(folder: Path, option: str, *, is_private: bool = False) -> None:
    try:
        if is_private:
            private_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"{option} {folder} cannot be used ({reason}); choose another folder") from None
