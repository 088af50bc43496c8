"""The checks that a runtime must pass, a module a stage, from memory to training a net.

They know the device only as users and the contract do. Run them with

    pytest --pyargs lazyten.testing.conformance --device NAME

`lazyten.testing.kit` has their fixtures (`device`, `runtime`, `card`); see docs/porting.md.
"""
