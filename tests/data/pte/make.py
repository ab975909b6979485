"""How the files of this folder were exported: ExecuTorch 1.5.1 with torch 2.13.0 CPU, from random weights.

python make.py          # in a folder of its own; not part of any test run
"""

from pathlib import Path

import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from torch.export import Dim, export


class Tiny(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)
        self.embedding = torch.nn.Embedding(16, 8)

    def forward(self, x, y):
        return torch.softmax(self.linear(self.embedding(x) + y), -1), y.sum(-1)


torch.manual_seed(0)
model, inputs = Tiny().eval(), (torch.ones(1, 3, dtype=torch.long), torch.zeros(1, 3, 8))
constants = {
    "get_kv_io_bit_width": 8, "get_max_seq_len": 128, "use_kv_cache": True, "get_eos_ids": [1, 2], "name": "tiny", "scale": 0.5,
}  # fmt: skip
both = {"forward": export(model, inputs), "encode": export(model, inputs)}
made = to_edge_transform_and_lower(both, partitioner=[XnnpackPartitioner()], constant_methods=constants).to_executorch()
Path("xnnpack.pte").write_bytes(made.buffer)
made = to_edge_transform_and_lower(export(model, inputs), partitioner=[VulkanPartitioner()]).to_executorch()
Path("vulkan.pte").write_bytes(made.buffer)
n = Dim("n", min=1, max=7)
dynamic = export(model, inputs, dynamic_shapes={"x": {1: n}, "y": {1: n}})
elsewhere = ExecutorchBackendConfig(extract_delegate_segments=False, external_constants=True)
made = to_edge_transform_and_lower(dynamic, partitioner=[XnnpackPartitioner()]).to_executorch(elsewhere)
Path("dynamic.pte").write_bytes(made.buffer)
