"""`python -m ansorc`: the command `ansorc`, where the directory of scripts is not on the PATH."""

from ansorc.cli.main import main

if __name__ == "__main__":
    main()
