"""Tests of ansorc, in the folders of what they test; docs/extending.md says where a test goes."""
