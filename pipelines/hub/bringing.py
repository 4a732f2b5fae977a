"""The bytes of one file, as many as were listed, brought by the hub client's `http_get`, with its login and retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, cast

from ...parallel.wording import worded
from .listing import NotFetched

if TYPE_CHECKING:
    from .look import HubFile

Told = Callable[[int], None]


def bring(model_id: str, commit: str, file: HubFile, opened: IO[bytes], *, had: int, told: Told) -> None:
    """What is left of a file, after the `had` bytes at whose end `opened` stands; `told` how many are there by then.

    Raises what the client raises, and `NotFetched` where more comes than was listed.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    # What comes is written as it is: compressed, it could not be gone on with.
    headers = {**build_hf_headers(library_name="latentloom"), "Accept-Encoding": "identity"}
    http_get(
        hf_hub_url(model_id, file.name, revision=commit),
        cast(Any, Counted(opened, file, told)),
        resume_size=had,
        headers=headers,
        expected_size=file.num_bytes,
    )


class Counted:
    """A file as the hub's client writes it: tells how long it is by now, and takes no more than was listed."""

    def __init__(self, opened: IO[bytes], file: HubFile, told: Told) -> None:
        self._opened, self._file, self._told = opened, file, told
        self.seek, self.tell, self.truncate = opened.seek, opened.tell, opened.truncate

    def write(self, chunk: bytes) -> int:
        if self._opened.tell() + len(chunk) > self._file.num_bytes:
            raise NotFetched(worded("{} is larger than the hub says; this model is not fetched", self._file.name))
        written = self._opened.write(chunk)
        self._told(self._opened.tell())
        return written
