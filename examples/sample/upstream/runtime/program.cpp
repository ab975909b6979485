// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
#include "runtime/program.h"

#include <stdio.h>
#include <string.h>

namespace minirt {

Error Program::load(const char* text) {
  operation_count_ = 0;
  constant_count_ = 0;
  while (*text != '\0') {
    const size_t length = strcspn(text, "\n");
    char line[96];
    if (length >= sizeof(line)) {
      return Error::TooLong;
    }
    memcpy(line, text, length);
    line[length] = '\0';
    const Error error = load_line(line);
    if (error != Error::Ok) {
      return error;
    }
    text += length + (text[length] == '\n' ? 1 : 0);
  }
  return Error::Ok;
}

Error Program::load_line(const char* line) {
  char name[32];
  char rest[32];
  long long value = 0;
  if (line[0] == '#' || line[strspn(line, " \t\r")] == '\0') {
    return Error::Ok;
  }
  if (operation_count_ == kMaxEntries || constant_count_ == kMaxEntries) {
    return Error::TooLong;
  }
  if (sscanf(line, "const %31s %lld", rest, &value) == 2) {
    Constant& constant = constants_[constant_count_++];
    memcpy(constant.name, rest, sizeof(rest));
    constant.value = value;
    return Error::Ok;
  }
  if (sscanf(line, "%31s %lld", name, &value) != 2) {
    return Error::BadLine;
  }

  if (strcmp(name, "add") == 0) {
    operations_[operation_count_++] = {Operation::Add, value};
  } else if (strcmp(name, "mul") == 0) {
    operations_[operation_count_++] = {Operation::Mul, value};
  }
  return Error::Ok;
}

int64_t Program::run(int64_t value) const {
  uint64_t result = static_cast<uint64_t>(value);
  for (int i = 0; i < operation_count_; ++i) {
    const uint64_t argument = static_cast<uint64_t>(operations_[i].argument);
    result = operations_[i].kind == Operation::Add ? result + argument : result * argument;
  }
  return static_cast<int64_t>(result);
}

int64_t Program::constant(const char* name, int64_t fallback) const {
  for (int i = 0; i < constant_count_; ++i) {
    if (strcmp(constants_[i].name, name) == 0) {
      return constants_[i].value;
    }
  }
  return fallback;
}

} // namespace minirt
