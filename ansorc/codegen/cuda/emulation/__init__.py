"""CUDA C on a CPU: the text compiled as C++ with headers that say what a GPU would do."""
