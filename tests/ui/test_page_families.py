"""Shipped workflows of families, run in the page with tiny models of theirs: a picture, a video, a video with sound."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from support.browser import MODEL_MS, card
from support.checkout import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


@pytest.fixture(scope="module")
def server(start_page: Callable[..., Any], tiny: Callable[[str], Path]) -> Any:
    """Its models are those that `tiny` makes."""
    return start_page("--models-dir", str(tiny("z_image_turbo").parent))


@pytest.fixture
def shown(server: Any, open_page: Callable[..., Page], tiny: Callable[[str], Path]) -> Callable[..., Locator]:
    """`shown(workflow, family, kind, **params)`: what it made, in the gallery, as the element that shows it."""

    def run(workflow: str, family: str, kind: str, **params: Any) -> Locator:
        graph = json.loads((ROOT / "workflows" / f"{workflow}.json").read_text())
        for name, value in {"source": str(tiny(family)), "width": 64, "height": 64, **params}.items():
            graph["params"][name]["default"] = value
        page = open_page(server.url, graph=graph)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
        card(page, "save").get_by_role("button", name="Open the result of").click()
        return page.get_by_role("dialog").locator(kind).first

    return run


@pytest.mark.by_hand  # a video with sound goes the same way
def test_a_picture(shown: Callable[..., Locator]) -> None:
    expect(shown("z_image/z_image", "z_image_turbo", "img", steps=2)).to_have_js_property("naturalWidth", 64)


@pytest.mark.by_hand  # a video with sound is one
def test_a_video(shown: Callable[..., Locator]) -> None:
    video = shown("wan/wan_text_to_video", "wan", "video", steps=2, frames=5)
    expect(video).to_have_js_property("videoWidth", 64)
    assert video.evaluate(PLAYED) == {"ended": True, "sound": False}


@pytest.mark.by_hand
def test_a_video_with_sound(shown: Callable[..., Locator]) -> None:
    video = shown("minimax_h3/minimax_h3", "minimax_h3", "video", steps=2, frames=124)
    assert video.evaluate(PLAYED) == {"ended": True, "sound": True}
    assert video.evaluate("(video) => video.duration") == pytest.approx(124 / 24, abs=0.1)


PLAYED = """async (video) => {
  video.loop = false;
  video.playbackRate = 8;
  const ended = new Promise((resolve) => video.addEventListener("ended", resolve));
  await video.play();
  await ended;
  return { ended: video.ended, sound: video.webkitAudioDecodedByteCount > 0 };
}"""
"""Played to its end; whether a sound was decoded meanwhile."""
