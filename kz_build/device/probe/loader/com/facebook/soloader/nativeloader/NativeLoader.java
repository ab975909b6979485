package com.facebook.soloader.nativeloader;

/** What fbjni and ExecuTorch load their libraries through, without SoLoader: by the system's loader. */
public final class NativeLoader {
  private static NativeLoaderDelegate delegate;

  private NativeLoader() {}

  public static boolean loadLibrary(String name) {
    return loadLibrary(name, 0);
  }

  public static synchronized boolean loadLibrary(String name, int flags) {
    initIfUninitialized(new SystemDelegate());
    return delegate.loadLibrary(name, flags);
  }

  public static synchronized boolean isInitialized() {
    return delegate != null;
  }

  public static synchronized void init(NativeLoaderDelegate loader) {
    delegate = loader;
  }

  public static synchronized void initIfUninitialized(NativeLoaderDelegate loader) {
    if (delegate == null) {
      delegate = loader;
    }
  }
}
