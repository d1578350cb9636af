"""Whole networks: the paper's five (section 7.4), ansorc beside other libraries, in turns."""
