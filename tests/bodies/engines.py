"""What a rank does to test engines of Torch-TensorRT, by the stand-in for it."""

from pathlib import Path
from typing import Any

from bodies.compiled import _apart
from bodies.meshes import by_plan
from latentloom.parallel.mesh import Mesh
from latentloom.pipelines.components import tensorrt
from latentloom.pipelines.spreading.transformer import shard
from support.cells import model_of, outputs
from support.tensorrt_stand_in import stand_in
from zoo.cases import Case


@by_plan
def built(rank: int, variant: str, mesh: Mesh, folder: str) -> dict[str, Any]:
    """A transformer of this class by engines on the first rank: how far it is from one process without, engines of each
    graph, what is left to torch, the engines' keys, and how many had to be built. The other ranks only answer.
    """
    model, given = model_of(variant, Case("any", rows=4, columns=4, text=7))
    wanted = outputs(model, given)
    handle = shard(model, mesh.plan, mesh)
    with stand_in(Path(folder)) as found:
        if rank == 0:
            handle.compile(backend=tensorrt.backend, dynamic=False, fullgraph=False, sends_in_graphs=False)
        learned = _apart(outputs(model, given), wanted)  # before there is a graph
        apart = max(learned, _apart(outputs(model, given), wanted))
        handle.remove()
    return {
        "apart": apart,
        "engines": found.engines,
        "left": dict(found.left),
        "keys": sorted(set(found.keys)),
        "built": found.num_built,
    }
