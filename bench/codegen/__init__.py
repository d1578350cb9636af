"""Schedules written by hand, without any search: what the generated code can reach."""
