"""The checks that a runtime must pass, a module a stage, from memory to training a net.

They know the device only as users and the contract do. Run them with

    pytest --pyargs lazyten.testing.conformance --device NAME

`lazyten.testing.kit` has their fixtures (`device`, `runtime`, `card`); see docs/porting.md.

Files, in reading order:

- test_01_memory.py: Stage 1: what is copied to the device comes back, and handles have memory of
  their own.
- test_02_launch.py: Stage 2: kernels run whole, on the right arguments, in order, and copies wait
  for them.
- test_03_elementwise.py: Stage 3: every op of the op table on every element type that the device
  claims.
- test_04_views.py: Stage 4: kernels read and write through views: every pattern on every element
  type.
- test_05_reductions.py: Stage 5: sums, products, maxima and scans along any axes, of any size.
- test_06_contractions.py: Stage 6: products of matrices, convolutions, and several reductions in
  one kernel.
- test_07_threads.py: Stage 7: kernels that several threads, work items or groups of them share.
- test_08_capture.py: Stage 8: jitted functions, which run a captured sequence of launches on
  other memory.
- test_09_pressure.py: Stage 9: memory that is short, or given back and taken again all the time.
- test_10_errors.py: Stage 10: what goes wrong is an error that says what to do, and the device
  works afterwards.
- test_11_accuracy.py: Stage 11: the errors of functions in units in the last place, beside their
  bounds.
- test_12_training.py: Stage 12: small nets train, eagerly and jitted, as they do on the
  interpreter.
- values.py: Arrays that the checks of several stages compute on, and how a graph is computed.
"""
