"""`lt.save` and `lt.load`: tensors, data and objects in files, and the weights in PyTorch's.

In: tensors and what surrounds them, or a file. Out: a file, or what is in it. Not here: checkpoints
that several processes write (distributed/checkpoint/), ONNX (onnx/).

Files, in reading order:

- serialization.py: Saving and loading tensors in the safetensors format (package `safetensors`,
  an extra).
- objects.py: Objects of classes, such as a whole module, as a pickle among a file's tensors.
- pytorch_files.py: PyTorch's files of weights: read, and nothing in them run.
- saving.py: `lt.save` and `lt.load`: nested state, such as a checkpoint, in one safetensors file.

What lazyten writes is one format, in which data are no code, so they are read without a second
thought. Objects of classes are code: a file that has any says so, and is read only with
`weights_only=False`. What PyTorch wrote is read alike, by its own rule of what is data.
"""
