"""PyTorch's names that lazyten has elsewhere, or refuses: what to use instead.

In: a name that a program asks for. Out: what it means here, or an error that says why it is not
there. What lazyten has under PyTorch's name and at PyTorch's place is not here.

Files, in reading order:

- refusals.py: Names of PyTorch that lazyten refuses: using one says why.
- futures.py: `lt.futures`: results that come later, under PyTorch's names.
- torchscript.py: TorchScript's names, for programs that have PyTorch compile parts of models.
- names.py: Why an attribute is not there, by patterns of names.
- modules.py: PyTorch's modules that have no file here: other names of what is elsewhere, and
  refused ones.
"""
