"""What programs ask of the machine and of how they run, under PyTorch's names.

In: nothing, or a device. Out: what there is, which is one process and one device at a time.
`lazyten/pytorch/modules.py` gives these files PyTorch's names: `lt.accelerator`, `lt.cpu`.

Files, in reading order:

- accelerator.py: `lt.accelerator`: the GPU, if there is one.
- processor.py: `lt.cpu`: the processor.
- no_device.py: `lt.mps` and `lt.xpu`: devices that lazyten has no runtime for.
- overrides.py: `lt.overrides` and `lt.types`: classes that stand for tensors, of which there are
  none, and types of annotations.
- checks.py: `lt._check`: what PyTorch's own code checks its arguments with, and packages too.
- flat.py: `lt._utils`: several tensors as one flat one.
- compiler.py: `lt.compiler`: marks of what is to be compiled, which change nothing.
- config.py: `lt.__config__`: what lazyten was built with: nothing, as it compiles itself.
- internals.py: `lt._C`: the few names of PyTorch's own parts that packages ask for.
"""
