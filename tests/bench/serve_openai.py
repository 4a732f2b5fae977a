"""Ask `latentloom serve` by the stock `openai` package: the snippet of ui/README.md, a kill in between, and mistakes.

    pip install openai
    python tests/bench/serve_openai.py        # a minute or two; exits with 1 where something is not as it must be

The model of videos is a tiny Wan with random weights, which the script writes.
"""

import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import openai
from openai import OpenAI
from PIL import Image

from support.checkout import ROOT
from support.service import Serving, serve
from support.tiny_models import write_tiny

TOKEN = "a-token-of-this-script"
VIDEO = "my-video"
SNIPPET = re.compile(r"```python\n(from openai|import base64)(.*?)```", re.DOTALL)


def check(what: str, is_so: bool) -> None:
    print(f"{'ok  ' if is_so else 'BAD '} {what}", flush=True)
    if not is_so:
        raise SystemExit(1)


def publish(serving: Serving, model: Path) -> None:
    """The template of Wan with the tiny model as an app, under the name that the snippet asks for."""
    graph: dict[str, Any] = json.loads((ROOT / "workflows" / "wan" / "wan_text_to_video.json").read_text())
    graph["params"]["source"]["default"] = str(model)
    graph["params"]["steps"]["default"] = 2
    kept = serving.client.post("/loom/workflows", json={"graph": graph, "name": VIDEO}).raise_for_status().json()
    serving.client.put(f"/loom/workflows/{kept['id']}/app", json={"version": 1}).raise_for_status()


def run_snippet(base_url: str) -> dict[str, Any]:
    found = SNIPPET.search((ROOT / "ui" / "README.md").read_text())
    assert found is not None, "the README has a snippet"
    code = found[1] + found[2]
    names: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:7860/v1", base_url).replace('"TOKEN"', f'"{TOKEN}"'), names)  # noqa: S102
    return names


def survives(serving: Serving, folder: Path, client: OpenAI, port: int) -> Serving:
    """A video that is asked for, and a kill -9 before it is there."""
    video = client.videos.create(model=VIDEO, prompt="waves", size="64x64", seconds="1", extra_body={"seed": 3})
    serving.process.kill()
    serving.process.wait()
    again = serve(folder, "--models-dir", str(folder / "models"), token=TOKEN, port=port)
    told = client.videos.retrieve(video.id)
    check(f"a video survives kill -9 ({told.status})", told.status in ("queued", "in_progress", "completed"))
    end = time.monotonic() + 300
    while told.status in ("queued", "in_progress") and time.monotonic() < end:
        time.sleep(0.5)
        told = client.videos.retrieve(video.id)
    check("and is completed after it", told.status == "completed" and told.size == "64x64")
    check("and is listed", video.id in [each.id for each in client.videos.list(limit=10)])
    content = client.videos.download_content(video.id).read()
    check("and is an MP4", content[4:8] == b"ftyp")
    return again


def refused(what: str, kind: type[openai.APIStatusError], ask: Callable[[], Any], *says: str | None) -> None:
    """Whether it is the package's own exception, with this code and param."""
    try:
        ask()
    except openai.APIStatusError as error:
        check(f"{what}: {type(error).__name__}, {error.message[:90]}", type(error) is kind)
        check(f"{what}: code and param {says}", (error.code, error.param) == says)
        return
    check(f"{what} is refused", False)


def picture(size: tuple[int, int]) -> io.BytesIO:
    Image.new("RGB", size, "teal").save(file := io.BytesIO(), "PNG")
    file.name = "teal.png"
    file.seek(0)
    return file


def mistakes(client: OpenAI, base_url: str) -> None:
    said: dict[str, Any] = {"model": "first_picture", "prompt": "a red star"}
    make = client.images.generate
    refused("a wrong size", openai.BadRequestError, lambda: make(**said, size="100x100"), "bad-workflow", "size")
    unknown = said | {"model": "gpt-image-9"}
    refused("an unknown model", openai.NotFoundError, lambda: make(**unknown), "model_not_found", "model")
    refused("a stream", openai.BadRequestError, lambda: make(**said, stream=True), "bad-input", "stream")
    refused("a quality", openai.BadRequestError, lambda: make(**said, quality="hd"), "wrong-field", "quality")
    loose = said | {"extra_body": {"params": {"denoise.step_cache": "first_block"}}}
    refused("a step cache", openai.BadRequestError, lambda: make(**loose), "rounding", "rounding")
    edit = lambda: client.images.edit(**said, image=picture((64, 64)))  # noqa: E731
    refused("a picture to who takes none", openai.BadRequestError, edit, "wrong-field", "image")
    missing = lambda: client.videos.retrieve("0" * 16)  # noqa: E731
    refused("a video that is not there", openai.NotFoundError, missing, "wrong-field", "id")
    for what, key in (("no token", ""), ("a wrong token", "another-token-of-this-script")):
        stranger = OpenAI(base_url=base_url, api_key=key or "x", max_retries=0)
        headers: Any = {} if key else {"Authorization": openai.Omit()}
        ask = lambda asked=stranger, sent=headers: asked.models.list(extra_headers=sent)  # noqa: E731
        refused(what, openai.AuthenticationError, ask, "invalid_api_key", None)


def main() -> None:
    warnings.simplefilter("ignore", DeprecationWarning)  # of OpenAI's own service of videos
    os.environ["NO_PROXY"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = write_tiny("wan", folder / "models" / "tiny-wan")
        serving = serve(folder, "--models-dir", str(folder / "models"), token=TOKEN)
        try:
            publish(serving, model)
            base_url = f"{str(serving.client.base_url).rstrip('/')}/v1"
            os.chdir(folder)
            names = run_snippet(base_url)
            made = sorted(folder.glob("*.png"))
            sizes = [Image.open(file).size for file in made]
            check(f"the snippet made {[file.name for file in made]}", sizes == [(128, 96)] * 2)
            check("with its seeds", [each.seed for each in names["made"].data] == [4, 5])
            check("and an edit", len(names["edited"].data) == 1)
            check("and a video", (folder / "fox.mp4").read_bytes()[4:8] == b"ftyp")
            client = OpenAI(base_url=base_url, api_key=TOKEN, max_retries=0)
            check("which is deleted", names["video"].id not in [each.id for each in client.videos.list()])
            serving = survives(serving, folder, client, int(serving.client.base_url.port or 0))
            mistakes(client, base_url)
        finally:
            serving.process.terminate()
            serving.process.wait()


if __name__ == "__main__":
    main()
