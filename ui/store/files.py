"""How files are sent: by id, never run by a browser, in ranges where these are asked for."""

from pathlib import Path
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import FileResponse, JSONResponse
from starlette.types import Message, Receive, Scope
from starlette.types import Send as Sends

from ...parallel.wording import worded
from ..errors import NotHere, error_body

# What a browser may show in the page; anything else is a download.
MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".flac": "audio/flac",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".m4a": "audio/mp4",
}
SECURITY = "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"
HEADERS = {"Content-Security-Policy": SECURITY, "X-Content-Type-Options": "nosniff"}
KEEP = "private, max-age=86400, immutable"


def send(path: Path, *, name: str, is_download: bool = False) -> Response:
    """A file whose content never changes. Raises `NotHere` when it is gone."""
    if not path.is_file():
        raise NotHere(_gone(name))
    kind = MEDIA_TYPES.get(path.suffix.lower())
    return _KeptFile(
        path,
        media_type=kind or "application/octet-stream",
        filename=name,
        content_disposition_type="attachment" if is_download or kind is None else "inline",
        headers=HEADERS | {"Cache-Control": KEEP},
    )


class _KeptFile(FileResponse):
    """One that may be deleted after it was looked for and before it is sent: its head waits until it was opened."""

    async def __call__(self, scope: Scope, receive: Receive, send: Sends) -> None:
        heads: list[Message] = []

        async def late(message: Message) -> None:
            if message["type"] == "http.response.start":
                heads.append(message)
                return
            while heads:
                await send(heads.pop())
            await send(message)

        try:
            await super().__call__(scope, receive, late)
        except (RuntimeError, FileNotFoundError):
            if Path(self.path).exists():
                raise
            await JSONResponse(error_body(_gone(self.filename or ""), 404), 404)(scope, receive, send)


def _gone(name: str) -> str:
    return worded("the file {!r} is not on the server's disk any more; run its workflow again", name[:100])


def picture(data: bytes, media_type: str, *, keep: str = "no-store") -> Response:
    """A small picture that the server made."""
    return Response(data, media_type=media_type, headers=HEADERS | {"Cache-Control": keep})


def attachment(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}"}
