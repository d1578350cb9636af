"""What all importers of networks share: values, calls of converters, whose fault a failure is."""
