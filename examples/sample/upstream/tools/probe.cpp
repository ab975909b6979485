// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
//
// minirt_probe LIBRARY: loads it as a Java VM would, calls what it offers, and prints one JSON object per line.
// minirt_probe LIBRARY PROGRAM_FILE FIRST COUNT: runs a program in it instead, prints its tokens and how long they took.
#include <dlfcn.h>
#include <jni.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace {

bool quiet = false;
const char* class_name = nullptr;
JNINativeMethod registered[16];
int registered_count = 0;
jint array[64];
jsize array_length = 0;

// Objects of this VM: a class and a string are their characters, and there is one array.
jobject as_object(const void* pointer) {
  return const_cast<jobject>(static_cast<const _jobject*>(pointer));
}

jclass find_class(JNIEnv*, const char* name) {
  class_name = name;
  return as_object(name);
}

jint register_natives(JNIEnv*, jclass, const JNINativeMethod* methods, jint count) {
  for (jint i = 0; i < count && registered_count < 16; ++i) {
    registered[registered_count++] = methods[i];
    if (!quiet) {
      printf("{\"registered\": \"%s.%s%s\"}\n", class_name, methods[i].name, methods[i].signature);
    }
  }
  return JNI_OK;
}

const char* get_string(JNIEnv*, jstring string, jboolean*) {
  return reinterpret_cast<const char*>(string);
}

void release_string(JNIEnv*, jstring, const char*) {}

jintArray new_array(JNIEnv*, jsize length) {
  array_length = length;
  return as_object(array);
}

void set_array(JNIEnv*, jintArray, jsize at, jsize count, const jint* values) {
  memcpy(array + at, values, count * sizeof(jint));
}

void* function(const char* name) {
  for (int i = 0; i < registered_count; ++i) {
    if (strcmp(registered[i].name, name) == 0) {
      return registered[i].fnPtr;
    }
  }
  return nullptr;
}

void generate(JNIEnv* env, jint type, const char* text) {
  auto load = reinterpret_cast<jlong (*)(JNIEnv*, jclass, jint, jstring)>(function("load"));
  auto run = reinterpret_cast<jintArray (*)(JNIEnv*, jclass, jlong, jint, jint)>(function("generate"));
  auto destroy = reinterpret_cast<void (*)(JNIEnv*, jclass, jlong)>(function("destroy"));
  const jlong handle = load(env, nullptr, type, as_object(text));
  printf("{\"generate\": {\"type\": %d, \"loaded\": %s, \"tokens\": [", type, handle != 0 ? "true" : "false");
  if (handle != 0) {
    run(env, nullptr, handle, 1, 6);
    for (jsize i = 0; i < array_length; ++i) {
      printf("%s%d", i == 0 ? "" : ", ", array[i]);
    }
    destroy(env, nullptr, handle);
  }
  printf("]}}\n");
}

double now_ms() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1000.0 + now.tv_nsec / 1e6;
}

// As ExecuTorch's runners do: the text, then one line of statistics.
int run_program(JNIEnv* env, const char* path, const char* first, const char* count) {
  static char text[4096];
  FILE* file = fopen(path, "rb");
  if (file == nullptr) {
    fprintf(stderr, "minirt_probe: cannot read %s\n", path);
    return 2;
  }
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  auto load = reinterpret_cast<jlong (*)(JNIEnv*, jclass, jint, jstring)>(function("load"));
  auto run = reinterpret_cast<jintArray (*)(JNIEnv*, jclass, jlong, jint, jint)>(function("generate"));
  auto destroy = reinterpret_cast<void (*)(JNIEnv*, jclass, jlong)>(function("destroy"));
  const double load_start = now_ms();
  const jlong handle = load(env, nullptr, 2, as_object(text));
  const double load_end = now_ms();
  if (handle == 0) {
    fprintf(stderr, "minirt_probe: %s is no program\n", path);
    return 1;
  }
  const double start = now_ms();
  run(env, nullptr, handle, atoi(first), 1);
  const double first_token = now_ms();
  run(env, nullptr, handle, atoi(first), atoi(count));
  const double end = now_ms();
  printf("tokens:");
  for (jsize i = 0; i < array_length; ++i) {
    printf(" %d", array[i]);
  }
  printf(
      "\nPyTorchObserver {\"prompt_tokens\":1,\"generated_tokens\":%d,\"model_load_start_ms\":%.3f,"
      "\"model_load_end_ms\":%.3f,\"inference_start_ms\":%.3f,\"inference_end_ms\":%.3f,\"prompt_eval_end_ms\":%.3f,"
      "\"first_token_ms\":%.3f,\"SCALING_FACTOR_UNITS_PER_SECOND\":1000}\n",
      array_length, load_start, load_end, start, end, first_token, first_token);
  destroy(env, nullptr, handle);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  void* library = argc == 2 || argc == 5 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    fprintf(stderr, "minirt_probe: %s\n", argc == 2 || argc == 5 ? dlerror() : "LIBRARY [PROGRAM_FILE FIRST COUNT]");
    return 2;
  }
  auto on_load = reinterpret_cast<jint (*)(JavaVM*, void*)>(dlsym(library, "JNI_OnLoad"));
  auto version = reinterpret_cast<const char* (*)()>(dlsym(library, "minirt_version"));
  auto run = reinterpret_cast<int32_t (*)(const char*, int64_t, int64_t*)>(dlsym(library, "minirt_run"));
  auto multiply_add = reinterpret_cast<jlong (*)(JNIEnv*, jclass, jlong, jlong, jlong)>(
      dlsym(library, "Java_org_minirt_Calculator_nativeMultiplyAdd"));
  if (on_load == nullptr || version == nullptr || run == nullptr || multiply_add == nullptr) {
    fprintf(stderr, "minirt_probe: an export is missing: %s\n", dlerror());
    return 1;
  }
  if (argc == 2) {
    printf("{\"version\": \"%s\"}\n", version());
  }

  static JNINativeInterface functions = {};
  functions.FindClass = find_class;
  functions.RegisterNatives = register_natives;
  functions.GetStringUTFChars = get_string;
  functions.ReleaseStringUTFChars = release_string;
  functions.NewIntArray = new_array;
  functions.SetIntArrayRegion = set_array;
  static JNIEnv env = {&functions};
  static JNIInvokeInterface invoke = {};
  invoke.GetEnv = [](JavaVM*, void** out, jint) -> jint { *out = &env; return JNI_OK; };
  JavaVM vm = {&invoke};

  quiet = argc == 5;
  const jint jni_version = on_load(&vm, nullptr);
  if (!quiet) {
    printf("{\"JNI_OnLoad\": %d}\n", jni_version);
  }
  if (jni_version != JNI_VERSION_1_6) {
    return 1;
  }
  if (quiet) {
    return run_program(&env, argv[2], argv[3], argv[4]);
  }
  int64_t result = 0;
  int32_t error = run("mul 6\nadd 2\n", 7, &result);
  printf("{\"run\": {\"error\": %d, \"result\": %lld}}\n", error, static_cast<long long>(result));
  result = 0;
  error = run("mul 6\nsub 2\n", 7, &result);
  printf("{\"run_unknown\": {\"error\": %d, \"result\": %lld}}\n", error, static_cast<long long>(result));
  printf("{\"multiply_add\": %lld}\n", static_cast<long long>(multiply_add(&env, nullptr, 6, 7, 8)));
  generate(&env, 1, "mul 6\nadd 2\n");
  generate(&env, 2, "const get_kv_io_bit_width 16\nmul 5\nadd 7\n");
  generate(&env, 2, "const get_kv_io_bit_width 8\nmul 5\nadd 7\n");
  return 0;
}
