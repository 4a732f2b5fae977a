"""A contact sheet: many small pictures in one file, for a person to look at."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

GAP = 2


def write_sheet(pictures: Sequence[np.ndarray], path: Path, *, columns: int) -> None:
    """Row by row, a grey line between pictures of equal size."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    page = Image.new("RGB", (columns * (width + GAP), rows * (height + GAP)), (90, 90, 90))
    for i, picture in enumerate(pictures):
        page.paste(Image.fromarray(picture), (i % columns * (width + GAP), i // columns * (height + GAP)))
    page.save(path, quality=90)
