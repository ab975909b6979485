// Copyright (c) 2026, the minirt authors. BSD-3-Clause, see LICENSE.
package org.minirt;

/** Loads the library once, under the name it has in an app. */
final class NativeLibrary {
  static {
    System.loadLibrary("minirt");
  }

  private NativeLibrary() {}

  static void load() {}
}
