"""What operations mean, as nodes: no tensors here.

In: GRAPH nodes, and arguments as users give them. Out: one GRAPH node. The methods of Tensor and
`nn.functional` wrap them. elementwise.py, in math/, broadcasts and promotes.
"""
