// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
//
// minirt_runner [PROGRAM_FILE [FIRST [COUNT]]]: prints the tokens that follow FIRST.
#include <stdio.h>
#include <stdlib.h>

#include "runtime/program.h"
#include "runtime/runner.h"

namespace {

constexpr int kMaxTokens = 64;
char text[4096] = "const get_kv_io_bit_width 8\nmul 5\nadd 7\n";

bool read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == nullptr) {
    return false;
  }
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  return true;
}

} // namespace

int main(int argc, char** argv) {
  minirt::Program program;
  if (argc > 1 && !read_file(argv[1])) {
    fprintf(stderr, "minirt_runner: cannot read %s\n", argv[1]);
    return 2;
  }
  const minirt::Error error = program.load(text);
  if (error != minirt::Error::Ok) {
    fprintf(stderr, "minirt_runner: not a program (error %d)\n", static_cast<int>(error));
    return 1;
  }
  const int64_t first = argc > 2 ? atoll(argv[2]) : 1;
  const int wanted = argc > 3 ? atoi(argv[3]) : 8;
  const int count = wanted < 0 ? 0 : wanted > kMaxTokens ? kMaxTokens : wanted;
  int32_t tokens[kMaxTokens];
  if (program.constant("get_kv_io_bit_width", 16) == 8) {
    minirt::Runner<uint8_t>(program).generate(first, tokens, count);
  } else {
    minirt::Runner<uint16_t>(program).generate(first, tokens, count);
  }
  printf("minirt %s\ntokens:", MINIRT_VERSION);
  for (int i = 0; i < count; ++i) {
    printf(" %d", tokens[i]);
  }
  printf("\n");
  return 0;
}
