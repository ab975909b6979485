"""Run by an environment's own Python: compiles one quantized layer for the HTP and runs it in QNN's emulation on this machine.

probe_qnn.py SOC OUT.pte    its last line is JSON: by how many steps the emulation differs from torch

SDK and linker path come from the environment (QNN_SDK_ROOT, LD_LIBRARY_PATH), as for the export itself.
"""

import json
import sys

import torch
from executorch.backends.qualcomm.export_utils import make_quantizer
from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
from executorch.backends.qualcomm.utils.utils import (
    generate_htp_compiler_spec,
    generate_qnn_executorch_compiler_spec,
    to_edge_transform_and_lower_to_qnn,
)
from executorch.runtime import Runtime
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


def main(soc: str, out: str) -> int:
    torch.manual_seed(0)
    model, inputs = torch.nn.Linear(16, 8).eval(), (torch.randn(1, 16),)
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), make_quantizer())
    prepared(*inputs)
    quantized = convert_pt2e(prepared)
    # The emulation has neither shared buffers nor weight sharing; both are off by default.
    spec = generate_qnn_executorch_compiler_spec(
        soc_model=getattr(QcomChipset, soc), backend_options=generate_htp_compiler_spec(use_fp16=False)
    )
    program = to_edge_transform_and_lower_to_qnn(quantized, inputs, spec).to_executorch()
    with open(out, "wb") as file:
        program.write_to_file(file)
    (result,) = Runtime.get().load_program(out).load_method("forward").execute(list(inputs))
    # In steps of the output's quantization: torch rounds what it computed in floats, and another processor may round a tie elsewhere.
    step = next(n.args[1] for n in reversed(quantized.graph.nodes) if "dequantize_per_tensor" in str(n.target))
    off = (result - quantized(*inputs)).abs().max().item() / step
    print("\n" + json.dumps({"off": round(off, 3)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
