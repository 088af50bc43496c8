"""Layers for sequences: attention and transformers, and recurrent layers.

In: tensors with an axis of positions. Out: the same. `lazyten.nn` offers the layers, and
`lazyten.nn.utils.rnn` what packs sequences. Not here: the functions that they call (nn/functions/),
and what a recurrence means (operators/arrays/recurrences.py).

Files, in reading order:

- attention.py: `MultiheadAttention`: the weights of several heads, and options kept.
- transformer.py: Transformers: layers of attention and of perceptrons, stacked.
- packing.py: Sequences of different lengths in one tensor: padded, (longest, batch, ..), or packed,
  without what pads them.
- cells.py: Cells of recurrent nets: one step of a sequence.
- recurrent.py: Recurrent layers: RNN, LSTM and GRU over whole sequences, in one or two directions.

Packed sequences are padded for the steps of a layer, and packed again after it: an example that is
over keeps its states. So every step is the same kernels, whatever the lengths.
"""
