"""Settings for tests on tiny tensors."""

from __future__ import annotations

import torch

torch.set_num_threads(1)
"""A second thread costs more than it brings here."""
