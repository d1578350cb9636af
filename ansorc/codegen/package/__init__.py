"""A kernel as files for C and C++: its interface, header, manifest and library.

In: a signature and object code. Out: an `Artifact`.
"""
