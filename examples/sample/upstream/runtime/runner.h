// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
#pragma once

#include "runtime/program.h"

namespace minirt {

// Generates tokens. T is what the KV cache holds: uint8_t or uint16_t, and a program runs right with one of them only.
template <typename T>
class Runner {
 public:
  explicit Runner(const Program& program) : program_(program) {}

  // Writes `count` tokens that follow `first`, returns how many.
  int generate(int64_t first, int32_t* tokens, int count) const {
    T state = static_cast<T>(first);
    for (int i = 0; i < count; ++i) {
      state = static_cast<T>(program_.run(state));
      tokens[i] = state;
    }
    return count;
  }

 private:
  const Program& program_;
};

} // namespace minirt
