"""A shipped workflow of a family, run in the page with a tiny model: a video with sound, played to its end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

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


@pytest.mark.by_hand
def test_a_video_with_sound_is_made_and_played(
    start_page: Callable[..., Any], open_page: Callable[..., Page], tiny: Callable[[str], Path]
) -> None:
    source = tiny("minimax_h3")
    graph = json.loads((ROOT / "workflows/minimax_h3/minimax_h3.json").read_text())
    for name, value in {"source": str(source), "width": 64, "height": 64, "steps": 2, "frames": 124}.items():
        graph["params"][name]["default"] = value
    page = open_page(start_page("--models-dir", str(source.parent)).url, graph=graph)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    card(page, "save").get_by_role("button", name="Open the result of").click()
    video = page.get_by_role("dialog").locator("video").first
    assert video.evaluate(PLAYED) == {"ended": True, "sound": True}
    assert video.evaluate("(video) => video.duration") == pytest.approx(124 / 24, abs=0.1)
