// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
package org.minirt;

/** A loaded program. Its natives are registered by JNI_OnLoad. */
public final class LlmModule implements AutoCloseable {
  public static final int MODEL_TYPE_TEXT = 1;
  public static final int MODEL_TYPE_TOY_NPU = 2;

  static {
    NativeLibrary.load();
  }

  private long handle;

  public LlmModule(int modelType, String program) {
    handle = load(modelType, program);
    if (handle == 0) {
      throw new IllegalArgumentException("not a program");
    }
  }

  /** The {@code count} tokens that follow {@code first}. */
  public int[] generate(int first, int count) {
    if (handle == 0) {
      throw new IllegalStateException("closed");
    }
    return generate(handle, first, count);
  }

  @Override
  public void close() {
    destroy(handle);
    handle = 0;
  }

  private static native long load(int modelType, String program);

  private static native int[] generate(long handle, int first, int count);

  private static native void destroy(long handle);
}
