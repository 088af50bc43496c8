"""Functions of tensors with spatial axes: lines, images, blocks.

In: tensors (batch, channels, *spatial), most of them also without a batch. Out: the same.

Files, in reading order:

- convolution.py: Convolutions of tensors, which `lazyten.nn.functional` offers.
- pooling.py: Pooling of tensors, which `lazyten.nn.functional` offers.
- adaptive_pooling.py: Pooling to a given size: windows share each spatial axis out, and may
  differ by one in size.
- interpolation.py: Resizing: each spatial axis in turn is read at positions between its elements.
- patches.py: Windows of images as columns and back, and channels exchanged with places.
"""
