from collections.abc import Callable
from typing import Any

loads: Callable[..., Any]
