"""Each recipe of docs/extending.md is performed on a copy of the tree, which passes its tests then.

By default all recipes are performed on one copy, and the tests run that are about what was added,
with those of the architecture; at night each has a copy of its own, and all tests that it names.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.extending.recipes import PAGE, RECIPES, ROOT, Recipe, Tree

ARCHITECTURE = "tests/test_architecture.py"
SLOW = ("A back end", "A pass")
"""Left to the night: they run programs, or every golden test."""


def test_the_page_has_no_other_recipes() -> None:
    titles = re.findall(r"^## (An? .*)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert titles == [recipe.title for recipe in RECIPES]


def test_a_tree_with_what_the_recipes_add_passes(tmp_path: Path) -> None:
    tree = Tree.copy(tmp_path)
    chosen = [recipe for recipe in RECIPES if recipe.title not in SLOW]
    for recipe in chosen:
        recipe.perform(tree)
    words = [word for recipe in chosen for word in recipe.words]
    tests = [test for recipe in chosen for test in recipe.tests]
    tree.check([*dict.fromkeys(tests), ARCHITECTURE], [*words, "test_architecture"])


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.title)
def test_a_tree_passes_the_tests_that_the_recipe_names(recipe: Recipe, tmp_path: Path) -> None:
    tree = Tree.copy(tmp_path)
    recipe.perform(tree)
    tree.check([*recipe.tests, ARCHITECTURE])
