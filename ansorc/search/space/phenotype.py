"""Keys of programs: equal for rows of genes that lower to the same loops."""

from __future__ import annotations

import zlib
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ansorc.schedule.extent import IntArray
from ansorc.schedule.genes import steps_to_json
from ansorc.schedule.stage import Iterator, IteratorKind, Mark, Stage
from ansorc.schedule.state import State
from ansorc.search.sketch.sketch import Sketch
from ansorc.search.space.genes import Genes, choice_values, population_state
