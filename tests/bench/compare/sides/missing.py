"""A side whose library is not installed."""

import a_library_that_nobody_has  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
