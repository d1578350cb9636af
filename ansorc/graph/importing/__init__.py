"""Code that all importers of networks share: values, calls of converters, causes of failures."""
