// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
#include <jni.h>

#include <stdlib.h>

#include "runtime/program.h"
#include "runtime/runner.h"

using minirt::Error;
using minirt::Program;
using minirt::Runner;

namespace {

constexpr jint kModelTypeText = 1;
constexpr jint kModelTypeToyNpu = 2;
constexpr jint kMaxTokens = 64;

struct Model {
  jint type;
  Program program;
};

jlong load(JNIEnv* env, jclass, jint type, jstring text) {
  Model* model = static_cast<Model*>(malloc(sizeof(Model)));
  if (model == nullptr) {
    return 0;
  }
  model->type = type;
  const char* characters = env->GetStringUTFChars(text, nullptr);
  const Error error = model->program.load(characters);
  env->ReleaseStringUTFChars(text, characters);
  if (error != Error::Ok) {
    free(model);
    return 0;
  }
  return reinterpret_cast<jlong>(model);
}

jintArray generate(JNIEnv* env, jclass, jlong handle, jint first, jint count) {
  const Model* model = reinterpret_cast<const Model*>(handle);
  jint tokens[kMaxTokens];
  jint generated = 0;
  count = count < 0 ? 0 : count > kMaxTokens ? kMaxTokens : count;

  if (model->type == kModelTypeText) {
    generated = 1;
    tokens[0] = static_cast<jint>(model->program.run(first));
  } else if (model->type == kModelTypeToyNpu) {
    // The NPU keeps its KV cache in integers.
    Runner<uint16_t> runner(model->program);
    generated = runner.generate(first, tokens, count);
  }

  jintArray result = env->NewIntArray(generated);
  env->SetIntArrayRegion(result, 0, generated, tokens);
  return result;
}

void destroy(JNIEnv*, jclass, jlong handle) {
  free(reinterpret_cast<void*>(handle));
}

const JNINativeMethod kMethods[] = {
    {"load", "(ILjava/lang/String;)J", reinterpret_cast<void*>(&load)},
    {"generate", "(JII)[I", reinterpret_cast<void*>(&generate)},
    {"destroy", "(J)V", reinterpret_cast<void*>(&destroy)},
};

} // namespace

extern "C" JNIEXPORT jlong JNICALL
Java_org_minirt_Calculator_nativeMultiplyAdd(JNIEnv*, jclass, jlong a, jlong b, jlong c) {
  return a * b + c;
}

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void*) {
  void* env = nullptr;
  if (vm->GetEnv(&env, JNI_VERSION_1_6) != JNI_OK) {
    return JNI_ERR;
  }
  JNIEnv* jni = static_cast<JNIEnv*>(env);
  jclass module = jni->FindClass("org/minirt/LlmModule");
  if (module == nullptr || jni->RegisterNatives(module, kMethods, sizeof(kMethods) / sizeof(kMethods[0])) != JNI_OK) {
    return JNI_ERR;
  }
  return JNI_VERSION_1_6;
}
