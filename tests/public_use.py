"""A user's script in types: what `basedpyright` in strict mode says of it is all that is wrong with our public names.

It is checked and never run: `tests/bench/public_types.py`, and by pyrefly `tests/test_public_types.py`. Each line with
WRONG is one that a checker must refuse, and no other line is.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import latentloom
from latentloom import Event, Image, Result, Session, Workflow, arun, run
from latentloom.nodes import decode, denoise, empty_latents, encode_text, load_model, save_image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image as Pillow
    from torch.nn import Module


def nodes_by_hand() -> Path:
    model = load_model("builtin:bobbin")
    latents = denoise(model, encode_text(model, "a red star"), empty_latents(model), seed=3)
    image = decode(model, latents)
    assert_type(image, Image)
    save_image(image, nam="star")  # WRONG
    denoise(model, latents, latents)  # WRONG
    encode_text(model, prompt=5)  # WRONG
    return Path(save_image(image, name="star").files[0])


def built() -> Workflow:
    with Workflow("stars") as flow:
        model = load_model("builtin:bobbin")
        prompt, seed = flow.param("prompt", "a red star"), flow.param("seed", 7, min=0)
        assert_type(seed, int)
        text = encode_text(model, prompt)
        image = decode(model, flow.add(denoise, model, text, empty_latents(model), seed=seed))
        flow.add(denoise, model, text, empty_latents(model), sed=seed)  # WRONG
        assert_type(image, Image)
        flow.output("picture", image)
    assert_type(flow.diff(Workflow.read("stars.json")), str)
    flow.write("stars.json")
    return flow


def told(event: Event) -> None:
    print(event.kind, event.done, event.total)


def ran() -> list[Pillow.Image]:
    result = run(built(), {"seed": 3}, out="there", devices="cpu*2", on_event=told, progress=False)
    run(built(), devises="cpu*2")  # WRONG
    assert_type(result, Result)
    assert_type(result.files, tuple[Path, ...])
    picture = result["picture"]
    if isinstance(picture, Image):
        array: NDArray[np.uint8] = picture.to_numpy()
        return Image.from_numpy(array).to_pil() + Image.from_pil(*result.images).to_pil()
    return result.images


async def beside() -> Result:
    with Session(devices="cpu*2", cache=False) as session:
        assert_type(session.run("first_picture"), Result)
        first, second = await asyncio.gather(
            session.arun("first_picture", {"seed": 1}, out="one"), arun("first_picture", {"seed": 2}, out="two")
        )
        await session.arun("first_picture", parms={"seed": 1})  # WRONG
    assert_type(first, Result)
    return second


def spread_by_hand(transformer: Module) -> None:
    latentloom.shard(transformer, plann="ulysses=2")  # WRONG
    print(latentloom.nope)  # WRONG
    with latentloom.Pool("cpu*2") as pool:
        pipeline = pool.spread("org/model", latentloom.ParallelPlan(cfg=2))
        print(pipeline("a lighthouse", num_inference_steps=2), pipeline(5))  # WRONG
    try:
        run("first_picture")
    except latentloom.LoomError as error:
        assert_type(error.code, str)
