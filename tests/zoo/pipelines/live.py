"""Which pipelines the installed diffusers has today for the transformers that the project splits."""

from latentloom.pipelines.signatures.survey import live_pipelines, transformers_of

__all__ = ["live_pipelines", "transformers_of"]
