"""A module that starts CUDA when it is imported, as far as torch can tell."""

import torch

torch.cuda._initialized = True
