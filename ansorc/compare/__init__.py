"""Programs of ansorc beside those of other libraries: each in a process of its own, in turns.

In: operators or networks and the names of libraries. Out: times that compare, as table and picture.
"""
