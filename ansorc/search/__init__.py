"""The search for a fast program. In: a `Task`. Out: records of measured programs, and the best.

* `sketch`: the structures of programs that rules derive from a computation
* `space`: programs as rows of integers, the genes of a sketch
* `features`: numbers that describe populations of programs
* `model`: cost models, which score programs by their features
* `evolution`: populations, mutation, crossover, selection, local search
* `measure`: worker processes that build, check and time programs
* `record`: the file that holds what was measured
* `paper`: the paper's space, strategies and features, for comparison

A run (`tuning_run`) asks its `proposals` for programs, has them measured, and lets the model learn.
`task_scheduler` chooses which task of a network gets the next round, and `tune_weighted` does it.
`options` has every number of the search; `default` chooses a program without measuring any.
"""
