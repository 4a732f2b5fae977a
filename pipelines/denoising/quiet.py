"""What diffusers and transformers log that says nothing to our users, or that we say better: kept off their screens.

Importing this module is enough: it adds filters to their loggers, and to warnings, which let everything else through.
"""

import logging
import warnings

CUT = "The following part of your input was truncated"
# Logger -> how the messages begin.
QUIET: dict[str, tuple[str, ...]] = {
    # prompt.py says how much of a prompt is cut
    "diffusers.modular_pipelines.flux.encoders": (CUT,),
    "diffusers.modular_pipelines.stable_diffusion_3.encoders": (CUT,),
    "transformers.tokenization_utils_base": ("Token indices sequence length is longer",),
    # blocks.py raises the error itself
    "diffusers.modular_pipelines.modular_pipeline": ("\nError in block", "Error in block"),
    # about the libraries' own parts, which work
    "diffusers.guiders.guider_utils": ("Guiders are currently an experimental feature",),
    "transformers.utils.import_utils": ("`CLIPImageProcessor` requires", "`SiglipImageProcessor` requires"),
}


def _silence(logger: str, beginnings: tuple[str, ...]) -> None:
    logging.getLogger(logger).addFilter(lambda record: not record.getMessage().startswith(beginnings))


# of diffusers' VAEs of sounds
warnings.filterwarnings("ignore", message=".*weight_norm. is deprecated", category=FutureWarning)
for _logger, _beginnings in QUIET.items():
    _silence(_logger, _beginnings)
