"""`lazyten.onnx.export`: functions of tensors as models in the ONNX format, of sizes that may vary.

In: a function or a module, tensors like those it will be given, and which of their sizes vary. Out:
a message, or a file. A function sees plain ints as sizes. So where sizes vary it is recorded at
many of them, which computes nothing; the graphs are put beside each other, and of each number that
differs it is worked out how it follows from the sizes: that is written as nodes. Where graphs have
different nodes, as something changes nothing at some sizes, they are aligned, or the model is
compared with them. All else is an error: a size is never written as a constant.

Files, in reading order:

- recording.py: a function as a graph.
- varying.py: numbers that differ from size to size.
- alike.py: graphs at several sizes as one.
- literals.py: numbers that a function knows.
- dynamic.py: which sizes vary, and which to look at.
- comparing.py: whether a model gives what its function gives.
- varied.py: a function's graph at sizes that vary.
- sizes.py: what follows from sizes as nodes.
- writer.py: nodes, constants and their names.
- wider.py: types that operators are written in.
- bits.py: bits of floats.
- scans.py: scans, which have a body.
- movements.py: ops that make arrays or move elements.
- rules.py: ops that compute, and the table of all.
- exporting.py: all of it, one after the other.
- options.py: what `torch.onnx.export` is given, as what is exported.
"""
