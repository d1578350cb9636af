from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
_Objective = Callable[[npt.NDArray[np.float64], Dataset], tuple[_Floats, _Floats]]

__version__: str

class Dataset:
    def __init__(
        self,
        data: _Floats,
        label: _Floats | None = ...,
        *,
        params: Mapping[str, object] | None = ...,
        free_raw_data: bool = ...,
    ) -> None: ...

class Booster:
    def __init__(
        self,
        params: Mapping[str, object] | None = ...,
        train_set: Dataset | None = ...,
        *,
        model_str: str | None = ...,
    ) -> None: ...
    def update(self, train_set: Dataset | None = ..., fobj: _Objective | None = ...) -> bool: ...
    def predict(
        self, data: _Floats, *, raw_score: bool = ..., num_threads: int = ...
    ) -> npt.NDArray[np.float64]: ...
    def model_to_string(self) -> str: ...
    def num_trees(self) -> int: ...
