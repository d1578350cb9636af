"""The programs of GPUs: sketch rules, static limits, analysis and features, all over arrays.

A kernel is a root stage whose outer loops are bound to blockIdx.x, vthread and threadIdx.x, with
what is computed inside.

* `space`: the search space, what the search asks of GPUs
* `rules`: which rule is asked of which stage, in their order
* `tiling`: tiles of blocks, virtual threads and threads; copies in shared memory
* `matrix_units`: tiles of sums that matrix units make
* `binding`: stages that are not tiled
* `thread_reduction`: reductions that the threads of a block make together
* `thread_tiles`: the lengths that may be chosen
* `kernels`: what each kernel takes of the machine
* `statements`, `description`: what threads do and which memory they touch, for the model
* `warp_requests`: what the requests of a warp take, counted once for each kind
* `features`: what the learned model is told
* `default`: the untuned program
* `transposition`: tiles that are turned round in shared memory
* `limits`: what no GPU runs, told before anything is compiled
* `sampling`: random programs within the limits
"""
