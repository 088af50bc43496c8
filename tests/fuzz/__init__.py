"""Random programs of tensors, run by lazyten's devices, its interpreter and PyTorch: `make fuzz`.

`program` says what a program is, `libraries` runs it, `rows_*` list the operations, `holes` and
`generator` write programs with them, `comparison` finds differences, `shrinker` makes a program
that differs short, `campaign` does all that for many. `training` writes programs that train, and
`gradients` those about gradients alone.
"""
