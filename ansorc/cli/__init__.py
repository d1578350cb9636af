"""The command line: parse arguments, call the library, print.

In: arguments. Out: text on the terminal, files, and an exit code; never a bare traceback.
"""
