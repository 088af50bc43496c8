"""PyTorch's database of operators beside lazyten: `make coverage`, which writes docs/coverage.md.

`variants` finds what each entry is called here, `translation` turns its samples into lazyten's,
`comparison` runs them in both libraries (`modules` and `optimizers` those of other databases, of
layers and of optimizers), `unsupported` says of what is not there why, `page`
writes what was found. Nothing here imports PyTorch's test modules before it is asked to.
"""
