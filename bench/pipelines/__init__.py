"""The applications of Halide's autoscheduler papers, beside Halide: `python -m bench.pipelines`."""
