"""Where we reach inside diffusers, past its public interface: each way once.

Diffusers asks for types by name, looks up special methods on classes, and copies what it is given. To change what an
object of it does, without a copy of its code, the object gets a class of its own here. What our modules take for
granted of diffusers meanwhile stands in `tests/pipelines/test_inside.py`: a version that is built in another way fails
there, with the name of what has changed, and not in a picture.

Importing this module keeps off our users' screens what diffusers and transformers log that says nothing to them, or
that we say better: filters of their loggers, and of warnings, let everything else through.
"""

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any


def derived(kind: type, *before: type, **members: Any) -> type:
    """A class of the same name that does what `kind` does; before that what the classes `before` and `members` say."""
    own = {"__module__": kind.__module__, "__doc__": kind.__doc__}  # by these diffusers finds its code and its helps
    return type(kind.__name__, (*before, kind), own | members)


def derive(thing: Any, *before: type, **members: Any) -> Callable[[], None]:
    """Give `thing` a class derived from its own, until what this gives is called.

    The class, not the object: Python looks `__call__` up there, and so do copies of the thing. Whoever derives twice
    takes the last off first.
    """
    kind = type(thing)
    thing.__class__ = derived(kind, *before, **members)

    def undo() -> None:
        thing.__class__ = kind

    return undo


@contextlib.contextmanager
def most_likely(vae: Any) -> Iterator[None]:
    """Within it this VAE, of which a stage has a copy, gives the middle of what it finds and draws nothing.

    Blocks that encode ask for a sample, and take no option that says otherwise.
    """
    encode = vae.encode

    def middle(*args: Any, **kwargs: Any) -> Any:
        found = encode(*args, **kwargs)
        found.latent_dist.sample = lambda generator=None: found.latent_dist.mode()
        return found

    vae.encode = middle
    try:
        yield
    finally:
        del vae.encode


CUT = "The following part of your input was truncated"
# Logger -> how the messages begin.
QUIET: dict[str, tuple[str, ...]] = {
    # families/row.py says how much of a prompt is cut
    "diffusers.modular_pipelines.flux.encoders": (CUT,),
    "diffusers.modular_pipelines.stable_diffusion_3.encoders": (CUT,),
    "transformers.tokenization_utils_base": ("Token indices sequence length is longer",),
    # blocks.py raises the error itself
    "diffusers.modular_pipelines.modular_pipeline": ("\nError in block", "Error in block"),
    # about the libraries' own parts, which work
    "diffusers.guiders.guider_utils": ("Guiders are currently an experimental feature",),
    "transformers.utils.import_utils": ("`CLIPImageProcessor` requires", "`SiglipImageProcessor` requires"),
}


# of diffusers' VAEs of sounds
warnings.filterwarnings("ignore", message=".*weight_norm. is deprecated", category=FutureWarning)
for _logger, _beginnings in QUIET.items():
    logging.getLogger(_logger).addFilter(lambda record, said=_beginnings: not record.getMessage().startswith(said))
