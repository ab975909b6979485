// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
#include "runtime/program.h"

#define MINIRT_EXPORT extern "C" __attribute__((visibility("default")))

MINIRT_EXPORT const char* minirt_version() {
  return MINIRT_VERSION;
}

// Loads `text` and runs it once on `value`. Returns an Error as a number; *result is written only for 0.
MINIRT_EXPORT int32_t minirt_run(const char* text, int64_t value, int64_t* result) {
  minirt::Program program;
  const minirt::Error error = program.load(text);
  if (error == minirt::Error::Ok) {
    *result = program.run(value);
  }
  return static_cast<int32_t>(error);
}
