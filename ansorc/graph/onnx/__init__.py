"""ONNX files as graphs. In: a file or a ModelProto. Out: a `Graph`."""
