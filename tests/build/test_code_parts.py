"""Which folder of the sources the code of a library comes from."""

from __future__ import annotations

import pytest

from kz_build.build.code_parts import ELSEWHERE, part_of


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("/kz/executorch/runtime/executor/method.cpp", "executorch/runtime/executor"),
        ("/kz/executorch/backends/xnnpack/runtime/XNNCompiler.cpp", "executorch/backends/xnnpack"),
        ("/kz/executorch/backends/xnnpack/third-party/XNNPACK/src/f32/a.c", "executorch/backends/xnnpack/third-party/XNNPACK"),
        ("/kz/et/extension/llm/tokenizers/third-party/re2/re2.cc", "et/extension/llm/tokenizers/third-party/re2"),
        ("/kz/kleidiai/kai/ukernels/x/y.S", "kleidiai/kai/ukernels"),
        ("/kz/executorch/main.c", "executorch"),
        ("/kz/executorch/third-party/one.c", "executorch/third-party"),
        ("/b/llvm/lib/builtins.c", ELSEWHERE),
        ("/kz2/x.c", ELSEWHERE),
    ],
)  # fmt: skip
def test_code_is_of_the_folder_or_the_vendored_project_it_is_in(source: str, part: str) -> None:
    assert part_of(source) == part
