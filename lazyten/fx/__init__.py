"""`lt.fx`: what a function or a module does with its inputs as a graph, under PyTorch's names.

In: a module or a function, and stand-ins for what it will be given. Out: a `Graph` of the calls
that it makes of them, which can be read, changed, run node by node, and made a module of again. Not
here: what is computed. A graph holds calls of Python's, none of the compiler's nodes; lazyten needs
none to compile a program, and packages have it to look into models and to change them.

Files, in reading order:

- node.py: Nodes: calls and their arguments.
- graph.py: Graphs of nodes: made, changed, checked.
- code.py: A graph as the text of a Python function.
- proxy.py: Stand-ins for values, which note what is done with them.
- tracer.py: A module or a function as a graph: what happens as it is called with stand-ins.
- graph_module.py: A module that does what a graph says.
- interpreter.py: A graph run, or rewritten, node by node.

Control flow is followed once, with what is known then: a condition on a stand-in raises a
`TraceError`. Modules of `lazyten.nn` are calls; those of the user's are gone through.
"""
from lazyten.fx.graph import Graph as Graph
from lazyten.fx.graph_module import GraphModule as GraphModule
from lazyten.fx.interpreter import Interpreter as Interpreter
from lazyten.fx.interpreter import Transformer as Transformer
from lazyten.fx.node import Node as Node
from lazyten.fx.node import has_side_effect as has_side_effect
from lazyten.fx.node import map_arg as map_arg
from lazyten.fx.proxy import Proxy as Proxy
from lazyten.fx.tracer import Tracer as Tracer
from lazyten.fx.tracer import symbolic_trace as symbolic_trace
from lazyten.fx.tracer import wrap as wrap

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer",
           "has_side_effect", "map_arg", "symbolic_trace", "wrap"]
