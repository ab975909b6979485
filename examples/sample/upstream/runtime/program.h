// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
#pragma once

#include <stdint.h>

namespace minirt {

enum class Error : int32_t { Ok = 0, BadLine = 1, UnknownOperation = 2, TooLong = 3 };

// A text of `name argument` lines. Blank lines and lines that start with # say nothing. Nothing is valid before load().
class Program {
 public:
  static constexpr int kMaxEntries = 32;

  Error load(const char* text);

  // One step: every operation, in order, on `value`.
  int64_t run(int64_t value) const;

  // The value of `const name`, or `fallback` where the program has none.
  int64_t constant(const char* name, int64_t fallback) const;

 private:
  struct Operation {
    enum { Add, Mul } kind;
    int64_t argument;
  };
  struct Constant {
    char name[32];
    int64_t value;
  };

  Error load_line(const char* line);

  Operation operations_[kMaxEntries];
  Constant constants_[kMaxEntries];
  int operation_count_;
  int constant_count_;
};

} // namespace minirt
