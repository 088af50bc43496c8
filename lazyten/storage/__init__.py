"""Devices by name, what a tensor's values live in, and what is still to be computed.

In: nodes. Out: buffers that have their values. Not here: how they are computed (execution/).

Files, in reading order:

- device.py: Devices by name: finds the runtime of a device, built in or from another package.
- placement.py: Where tensors live: the names of devices, and the one that new tensors get.
- tracing.py: What tells a capture (jit) about everything a function does while it is traced.
- levels.py: Which transforms of lazyten.func are under way in this thread, the outermost first.
- shared_memory.py: Memory that a storage shares with NumPy and other libraries, who write to it
  unseen.
- storage.py: What a tensor's values live in: `Buffer` is device memory, `Storage` a value that
  may change.
- held_memory.py: Memory for small arrays that the host computes anew each time, such as numbers of
  a step.
- stand_ins.py: How what stands for an argument of a transform lies in memory.
- untyped.py: Storages as programs see them: which tensors share memory, and the bytes of a file.
- placeholder.py: What stands in a graph where memory will be, when the graph is computed with other
  values.
- data.py: Python and NumPy values to buffers: what `lt.tensor(...)` accepts.
- memory_use.py: How much memory tensors take: `lt.memory_stats`, `lt.reset_peak` and
  `lt.empty_cache`.
- collectives.py: Collectives that were recorded and not carried out yet, which every rank does in
  this order.
- history.py: What has not been computed yet, and how much of it there is.
- frames.py: What is recorded of a step in terms that hold for every step: graphs over numbered
  sources.
- deferred.py: Storages whose value is known in a frame alone, and storages that a frame knows
  besides.

A storage may share memory with NumPy and other libraries, who write to it unseen
(shared_memory.py, interop.py). Its value stays a buffer of its own, which nothing changes;
`Storage.refresh` looks, before each read, whether the memory still has that value, and takes a
new copy if not. So a recorded expression keeps what it read, and nothing that was computed is
stale. A write to such a storage is computed at once and copied out. Reference counts tell when
nobody else knows the memory: then the storage is one like any other again.

What nobody looks at does not pile up. history.py knows of each node, in constant time, how deep
what is pending behind it is, and how many nodes ago the oldest of that was made; and it has, for
each thread, weak references to the storages that operations made or wrote. `history.beside`
chooses those that are computed together with a look, if they share work with it: state (written
in place, and there at the last look), updated parameters, and what was pending through two looks,
as it would be computed again at each.
"""
from __future__ import annotations

from lazyten.pytorch.modules import later

__getattr__ = later("lazyten.storage")
