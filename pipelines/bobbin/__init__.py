"""bobbin: the built-in text-to-image model, tiny, in the FLUX architecture, trained by the scripts in this folder."""

from pathlib import Path

MODEL_DIR = Path(__file__).parent / "model"
