/* Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
 *
 * The few parts of the Java Native Interface that minirt calls, written from the specification's table of function
 * numbers, for machines without a JDK. C++ only. A name starting with gap stands for functions left out.
 */
#pragma once

#include <stdint.h>

#define JNIEXPORT __attribute__((visibility("default")))
#define JNICALL
#define JNI_OK 0
#define JNI_ERR (-1)
#define JNI_VERSION_1_6 0x00010006

using jint = int32_t;
using jlong = int64_t;
using jsize = jint;
using jboolean = uint8_t;

class _jobject {};
using jobject = _jobject*;
using jclass = _jobject*;
using jstring = _jobject*;
using jintArray = _jobject*;

struct JNINativeMethod {
  const char* name;
  const char* signature;
  void* fnPtr;
};

struct JNIEnv;
struct JavaVM;

struct JNINativeInterface {
  void* gap0[6];
  jclass (*FindClass)(JNIEnv*, const char*); /* 6 */
  void* gap7[162];
  const char* (*GetStringUTFChars)(JNIEnv*, jstring, jboolean*); /* 169 */
  void (*ReleaseStringUTFChars)(JNIEnv*, jstring, const char*); /* 170 */
  void* gap171[8];
  jintArray (*NewIntArray)(JNIEnv*, jsize); /* 179 */
  void* gap180[31];
  void (*SetIntArrayRegion)(JNIEnv*, jintArray, jsize, jsize, const jint*); /* 211 */
  void* gap212[3];
  jint (*RegisterNatives)(JNIEnv*, jclass, const JNINativeMethod*, jint); /* 215 */
  void* gap216[18];
};

struct JNIInvokeInterface {
  void* gap0[6];
  jint (*GetEnv)(JavaVM*, void**, jint); /* 6 */
  void* gap7[1];
};

struct JNIEnv {
  const JNINativeInterface* functions;

  jclass FindClass(const char* name) { return functions->FindClass(this, name); }
  const char* GetStringUTFChars(jstring s, jboolean* copy) { return functions->GetStringUTFChars(this, s, copy); }
  void ReleaseStringUTFChars(jstring s, const char* chars) { functions->ReleaseStringUTFChars(this, s, chars); }
  jintArray NewIntArray(jsize length) { return functions->NewIntArray(this, length); }
  void SetIntArrayRegion(jintArray a, jsize at, jsize n, const jint* v) { functions->SetIntArrayRegion(this, a, at, n, v); }
  jint RegisterNatives(jclass c, const JNINativeMethod* m, jint n) { return functions->RegisterNatives(this, c, m, n); }
};

struct JavaVM {
  const JNIInvokeInterface* functions;

  jint GetEnv(void** env, jint version) { return functions->GetEnv(this, env, version); }
};
