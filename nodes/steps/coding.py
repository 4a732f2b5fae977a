"""Encode and Decode steps: from what a person gives to what steers a model, from latents to what is seen or heard."""

# B batch, F frames, H height, W width, C channels

import contextlib
import dataclasses
from functools import partial
from typing import Annotated, Any, Literal

from ...parallel.progress import SILENT, Progress
from ...pipelines import requests, settling
from ...pipelines.families import FAMILIES
from ...pipelines.shape import why_not_made
from ...pipelines.values import Audio, Conditioning, Depth, Image, Latents, Model, References, Video
from ..files.resize import check_area, cover, size_like
from ..files.workspace import HERE, SMALLER, Workspace
from ..graph.signature import read_spec
from ..graph.sketch import Asked, Empty, Given, Made, Reading, Seen, Text, Unknown, if_known
from ..graph.spec import MAX_SEED, Socket
from .arguments import checked
from .denoising import canvas_means, canvas_refusals, canvas_sketch, noise_recipe, upscale_sketch
from .sockets import Frames, NoiseChoice, Pixels
from .sockets import Text as Words


@checked
def encode_text(
    model: Model,
    prompt: Annotated[Words, "What the picture shows"],
    *,
    negative_prompt: Annotated[
        Words, "What to steer away from when guidance is above 1; empty is the model's own text, a space is none"
    ] = "",
    text_length: Annotated[
        int,
        Socket(min=0, max=4096, auto=True, advanced=True),
        "Tokens the text is padded or cut to; 0 is the model's own",
    ] = 0,
    references: Annotated[
        References | None, "Pictures to change, or to take things from, for a model that looks at some"
    ] = None,
    first_frame: Annotated[
        Latents | None, "What Encode Image made of a first frame, for a model that looks at it as it reads (MiniMax H3)"
    ] = None,
    progress: Progress = SILENT,
) -> Conditioning:
    """Read a prompt with the model's text encoders, and look at reference pictures."""
    from ...pipelines import placement

    request = requests.EncodeText(
        model=model,
        prompt=prompt,
        negative_prompt=negative_prompt,
        text_length=text_length,
        references=references,
        first_frame=first_frame,
    )
    return placement.encode_text(request, progress)


@checked
def reference_pictures(
    image: Image,
    image_2: Image | None = None,
    image_3: Image | None = None,
    image_4: Image | None = None,
    *,
    before: Annotated[
        References | None, "Pictures of another Reference Pictures, which come first in the order"
    ] = None,
) -> References:
    """Pictures for Encode Text: what the prompt changes, or takes things from. Each keeps its size, and each of a batch
    counts; a prompt names them by their order, as "picture 1" or as the model's makers say.
    """
    given = [each.pixels for each in (image, image_2, image_3, image_4) if each is not None]
    return References(
        pictures=(*(before.pictures if before else ()), *(picture for batch in given for picture in batch))
    )


@checked
def encode_image(
    model: Model,
    image: Image,
    *,
    width: Annotated[Pixels, "Pixels; 0 keeps the picture's shape at the model's own area"] = 0,
    height: Annotated[Pixels, "Pixels; 0 as for width"] = 0,
    frames: Frames = 0,
    fps: Annotated[float, Socket(min=0, max=240, auto=True), "Frames a second of a video; 0 is the model's own"] = 0.0,
    seed: Annotated[int, Socket(widget="seed", min=0, max=MAX_SEED, advanced=True)] = 0,
    noise: NoiseChoice = "seed",
    last_image: Annotated[
        Image | None, "The last frame of a video, for a model that makes what lies between (Wan)"
    ] = None,
    progress: Progress = SILENT,
    workspace: Workspace = HERE,
) -> Latents:
    """Where denoising starts from: a picture for image to image, the first frame for image to video.

    The picture is scaled to cover width x height and its middle is kept.
    """
    from ...pipelines import placement

    width, height = size_like(model, image, width=width, height=height)
    check_area(width, height, max_pixels=workspace.max_pixels, remedy=SMALLER[workspace.host])
    image = Image(pixels=cover(image.pixels, width, height))
    request = requests.EncodeImage(
        model=model,
        image=image,
        last_image=None if last_image is None else Image(pixels=cover(last_image.pixels, width, height)),
        width=width,
        height=height,
        frames=frames,
        fps=fps,
        seed=seed,
        noise=noise,
    )
    return placement.encode_image(request, progress)


def text_sketch(given: Given) -> Text:
    """Reference pictures that the model does not take are told at the node that denoises (`Text.refusal`)."""
    asked, known = Asked(requests.EncodeText, given), dict[str, Any]()
    with contextlib.suppress(ValueError):  # not known before the run
        num = asked.references.num_pictures if asked.references else 0
        refusal = settling.refusals(asked, "references").get("references", "")
        known = {"family": asked.model.family, "num_references": num, "refusal": refusal}
    saw_frame = if_known(lambda: settling.saw_frame(asked), None)
    return Text(num_tokens=int(given.number("text_length")), saw_frame=saw_frame, **known)


def text_reads(given: Given) -> Reading:
    texts: dict[str, str] = {}
    for name in ("prompt", "negative_prompt"):
        with contextlib.suppress(ValueError):  # not known before the run
            texts[name] = given.value(name)
    return Reading(model=given.value("model"), texts=texts, text_length=int(given.number("text_length")))


def references_sketch(given: Given) -> Seen:
    """A batch counts as one: how many are in it is not known before the run."""
    here = sum(given.has(name) for name in ("image", "image_2", "image_3", "image_4"))
    return Seen(num_pictures=here + (given.value("before").num_pictures if given.has("before") else 0))


@checked
def upscale_by_model(
    model: Model,
    latents: Latents,
    *,
    first_frame: Annotated[Image | None, "The first frame once more, encoded in the larger size"] = None,
    progress: Progress = SILENT,
) -> Latents:
    """Denoised latents made twice as wide and high by the model's own upsampler, for a second denoise (LTX-2).

    How far that one noises them again is the first of the sigmas of its Sampler Options.
    """
    from ...pipelines import placement

    made = placement.upscale(requests.Upscale(model=model, latents=latents), progress)
    if first_frame is None:
        return made
    canvas = {"width": made.width, "height": made.height, "frames": made.frames}
    frame = encode_image(model, first_frame, **canvas, fps=made.fps, progress=progress)
    return dataclasses.replace(made, extras=frame.extras)


def image_sketch(given: Given) -> Latents:
    """The picture is not read: where its shape would count, the model's own size stands for it. A first frame that the
    text encoder sees as well is there, without what it holds; a first frame begins from noise.
    """
    canvas, family = canvas_sketch(given, batch=1), FAMILIES[given.value("model").family]
    extras: dict[str, Any] = {"first_frame": None} if family.reads_frame or family.needs_frame else {}
    made = dataclasses.replace(canvas, extras=extras)
    return Empty(**vars(made)) if family.takes_image == "first_frame" else made


# ---- Decode, Decode Video, Decode Audio and Video Frames: from latents to what can be seen and heard.


@checked
def decode(model: Model, latents: Latents, *, depth: Depth = "floats", progress: Progress = SILENT) -> Image:
    """Pictures of denoised latents."""
    return _decoded(model, latents, depth, progress, "image")


@checked
def decode_video(model: Model, latents: Latents, *, depth: Depth = "floats", progress: Progress = SILENT) -> Video:
    """Clips of denoised latents."""
    return _decoded(model, latents, depth, progress, "video")


@checked
def decode_audio(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Audio:
    """The sound that a model painted beside its clips, for Save Audio, or for Save Video with them."""
    from ...pipelines import placement

    return placement.decode_audio(requests.DecodeAudio(model=model, latents=latents), progress)


@checked
def video_frames(video: Video) -> Image:
    """Every frame of every clip, as a batch of pictures."""
    return Image(pixels=video.pixels.flatten(0, 1))  # B*F H W C


def _decoded(
    model: Model, latents: Latents, depth: Depth, progress: Progress, output: Literal["image", "video"]
) -> Any:
    from ...pipelines import placement

    if why := why_not_made(model, output):
        raise ValueError(why)
    return placement.decode(requests.Decode(model=model, latents=latents, depth=depth), progress)


def decoded_sketch(given: Given) -> Made:
    """As many pictures, clips or sounds as latents, of their size and length."""
    latents: Latents = given.value("latents")
    size = {"width": latents.width, "height": latents.height, "frames": latents.frames}
    return Made(count=latents.batch, **size, fps=latents.fps)


def decoded_refusals(given: Given, *, output: Literal["image", "video"]) -> dict[str, str]:
    why = why_not_made(given.value("model"), output)
    return {"model": why} if why else settling.refusals(Asked(requests.Decode, given))


def frames_sketch(given: Given) -> Made:
    video: Made = given.value("video")
    if not video.frames:
        raise Unknown("how many frames the video has is known when it is read")
    return dataclasses.replace(video, count=video.count * video.frames, frames=1)


decoding = partial(read_spec, category="decode", uses_device=True, sketch=decoded_sketch)

NODES = {
    "LoomEncodeText": read_spec(
        encode_text,
        title="Encode Text",
        category="encode",
        uses_device=True,
        sketch=text_sketch,
        refuses=lambda given: settling.refusals(
            Asked(requests.EncodeText, given), "prompt", "text_length", "first_frame", "model"
        ),
        means=lambda given: settling.own_numbers(Asked(requests.EncodeText, given)),
        reads=text_reads,
    ),
    "LoomReferencePictures": read_spec(
        reference_pictures, title="Reference Pictures", category="encode", sketch=references_sketch
    ),
    "LoomEncodeImage": read_spec(
        encode_image,
        title="Encode Image",
        category="encode",
        uses_device=True,
        recipe=noise_recipe,
        sketch=image_sketch,
        refuses=lambda given: {**settling.refusals(Asked(requests.EncodeImage, given)), **canvas_refusals(given)},
        means=partial(canvas_means, has_shape=True),
    ),
    "LoomUpscaleByModel": read_spec(
        upscale_by_model,
        title="Upscale by Model",
        category="latents",
        uses_device=True,
        sketch=partial(upscale_sketch, scale=2.0),
        refuses=lambda given: settling.refusals(Asked(requests.Upscale, given)),
    ),
    "LoomDecode": decoding(decode, title="Decode", refuses=partial(decoded_refusals, output="image")),
    "LoomDecodeVideo": decoding(decode_video, title="Decode Video", refuses=partial(decoded_refusals, output="video")),
    "LoomDecodeAudio": decoding(
        decode_audio, title="Decode Audio", refuses=lambda given: settling.refusals(Asked(requests.DecodeAudio, given))
    ),
    "LoomVideoFrames": read_spec(video_frames, title="Video Frames", category="picture", sketch=frames_sketch),
}
