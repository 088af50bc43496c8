"""Functions of tensors with spatial axes: lines, images, blocks.

In: tensors (batch, channels, *spatial), most of them also without a batch. Out: the same.

Files, in reading order:

- convolution.py: Convolutions of tensors, which `lazyten.nn.functional` offers.
- pooling.py: Pooling of tensors, which `lazyten.nn.functional` offers.
- adaptive_pooling.py: Pooling to a given size: windows share each spatial axis out, and may
  differ by one in size.
- fractional_pooling.py: Pooling whose windows of one size begin at places that are drawn
  (B. Graham, 2014).
- unpooling.py: What a max_pool found put back to where it was, with zeros elsewhere.
- interpolation.py: Resizing: each spatial axis in turn is read at positions between its elements.
- sampling.py: Images read at any places: the places of an affine map, and what is there.
- patches.py: Windows of images as columns and back, and channels exchanged with places.
"""
