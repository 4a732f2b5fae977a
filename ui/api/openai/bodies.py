"""What requests to /v1 may say, and what they are answered: OpenAI's names, and ours beside them.

What OpenAI has and these lack is refused by its name; null says nothing.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...contract.answer import Answer
from ...contract.bodies import Overrides
from ...library.roles import Rounding

MOST_PROMPT = 32_000
SIZE = r"^(auto|[1-9][0-9]{0,4}x[1-9][0-9]{0,4})$"


class Making(BaseModel):
    """What images and videos have in common."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, Field(min_length=1, max_length=200)]
    """An app that the user has published, by its name, anybody's by its token, or a template."""
    prompt: Annotated[str, Field(min_length=1, max_length=MOST_PROMPT)]
    size: Annotated[str, Field(pattern=SIZE)] = "auto"
    quality: Annotated[str, Field(max_length=40)] = "auto"
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Ours; drawn where it is not given, and told."""
    rounding: Rounding = "none"
    """Ours: `none` takes each number by the same sums as on one device, `allowed` what rounds differently as the
    workflow names it, `approximate` step caches and quantization, too."""
    params: Overrides = {}
    """Ours: more of the workflow's params by name; of a template also single inputs, as node.socket."""
    user: Annotated[str, Field(max_length=1000)] = ""
    safety_identifier: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


class GenerateBody(Making):
    """Pictures of a prompt; `n` of them have seeds one after the other."""

    n: Annotated[int, Field(ge=1, le=10)] = 1
    response_format: Literal["b64_json", "url"] = "b64_json"
    output_format: Literal["png", "jpeg", "webp"] = "png"
    output_compression: Annotated[int, Field(ge=0, le=100)] = 100
    """The quality of JPEG and WebP."""
    background: Literal["auto", "opaque"] = "auto"
    moderation: Literal["auto", "low"] = "auto"
    """Nothing is moderated."""
    stream: Literal[False] = False
    partial_images: Literal[0] = 0


class VideoBody(Making):
    seconds: Annotated[float, Field(gt=0, le=3600)] | None = None


class ImageRow(Answer):
    b64_json: str | None
    url: str | None
    """Which takes the same login, or token."""
    seed: int | None
    run: str
    """For /loom/runs/ID, which tells how it was made."""


class ImagesAnswer(Answer):
    created: int
    data: list[ImageRow]
    output_format: str
    size: str


class OfferedModel(Answer):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    makes: Literal["image", "video"]
    takes: list[str]
    """Which of prompt, size, seed, n, image, mask and seconds."""
    description: str


class ModelsAnswer(Answer):
    object: Literal["list"] = "list"
    data: list[OfferedModel]


class VideoError(Answer):
    code: str
    message: str


class VideoRow(Answer):
    id: str
    object: Literal["video"] = "video"
    model: str
    status: Literal["queued", "in_progress", "completed", "failed"]
    progress: int
    """In hundredths."""
    created_at: int
    completed_at: int | None
    expires_at: int | None = None
    prompt: str
    size: str
    seconds: str
    seed: int | None
    error: VideoError | None
    remixed_from_video_id: str | None = None


class VideosAnswer(Answer):
    object: Literal["list"] = "list"
    data: list[VideoRow]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(Answer):
    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: bool = True


class WrongFacts(Answer):
    message: str
    type: str
    param: str | None
    code: str


class WrongAnswer(Answer):
    error: WrongFacts
