"""Shipped workflows of families, run in the page with tiny models: a video, with sound or without, and a picture."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import MODEL_MS, card
from support.checkout import ROOT

# Played to its end; whether a sound was decoded meanwhile.
PLAYED = """async (video) => {
  video.loop = false;
  video.playbackRate = 8;
  const ended = new Promise((resolve) => video.addEventListener("ended", resolve));
  await video.play();
  await ended;
  return { ended: video.ended, sound: video.webkitAudioDecodedByteCount > 0 };
}"""


OPENED = "Open the result of"


@pytest.fixture
def made(
    start_page: Callable[..., Any], open_page: Callable[..., Page], tiny: Callable[[str], Path]
) -> Callable[..., Locator]:
    """What a shipped workflow makes with a tiny model, opened."""

    def run(file: str, **values: Any) -> Locator:
        family = file.partition("/")[0]
        graph = json.loads((ROOT / "workflows" / f"{file}.json").read_text())
        for name, value in {"source": str(tiny(family)), "width": 64, "height": 64, "steps": 2, **values}.items():
            graph["params"][name]["default"] = value
        page = open_page(start_page("--models-dir", str(tiny(family).parent)).url, graph=graph)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
        card(page, "save").get_by_role("button", name=OPENED).click()
        return page.get_by_role("dialog")

    return run


@pytest.mark.parametrize(
    ("file", "frames", "has_sound"),
    [
        pytest.param("minimax_h3/minimax_h3", 124, True, marks=pytest.mark.by_hand),
        pytest.param("cosmos_3/cosmos_3_text_to_video", 49, False, marks=pytest.mark.by_hand),
        ("cosmos_3/cosmos_3_video_with_sound", 49, True),
    ],
)
def test_a_video_is_made_and_played(file: str, frames: int, has_sound: bool, made: Callable[..., Locator]) -> None:
    video = made(file, frames=frames).locator("video").first
    assert video.evaluate(PLAYED) == {"ended": True, "sound": has_sound}
    assert video.evaluate("(video) => video.duration") == pytest.approx(frames / 24, abs=0.1)


@pytest.mark.by_hand
def test_a_picture_of_a_model_of_videos_is_made_and_shown(made: Callable[..., Locator]) -> None:
    picture = made("cosmos_3/cosmos_3_text_to_image").locator("img").first
    expect(picture).to_be_visible()
    assert picture.evaluate("(picture) => picture.decode().then(() => picture.naturalWidth)") == 64
