"""`lt.distributed.tensor`: how the values of a layer lie on the ranks that share it out.

In: nothing. Out: placements, which plans of parallel layers are written with. Not here: tensors
that know how they lie, DTensors, which stand in parallel/ and are offered here, too.

Files, in reading order:

- placements.py: `Replicate` and `Shard`: whole on each rank, or cut along an axis.

The room parallel/ below it, which is above lazyten.nn, has the layers.
"""
from __future__ import annotations

from lazyten.distributed.device_mesh import DeviceMesh as DeviceMesh
from lazyten.distributed.device_mesh import init_device_mesh as init_device_mesh
from lazyten.distributed.tensor.placements import Partial as Partial
from lazyten.distributed.tensor.placements import Placement as Placement
from lazyten.distributed.tensor.placements import Replicate as Replicate
from lazyten.distributed.tensor.placements import Shard as Shard
from lazyten.pytorch.modules import later as _later

__all__ = ["DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "init_device_mesh"]
__getattr__ = _later("lazyten.distributed.tensor", "parallel")
