// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
package org.minirt;

/** Found by its exported name, not registered. */
public final class Calculator {
  static {
    NativeLibrary.load();
  }

  private Calculator() {}

  public static long multiplyAdd(long a, long b, long c) {
    return nativeMultiplyAdd(a, b, c);
  }

  private static native long nativeMultiplyAdd(long a, long b, long c);
}
