"""Which pipelines the installed diffusers has today for the transformers that the project splits."""

from bench.pipeline_signatures import live_pipelines, transformers_of

__all__ = ["live_pipelines", "transformers_of"]
