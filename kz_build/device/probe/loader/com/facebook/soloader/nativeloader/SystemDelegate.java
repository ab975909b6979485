package com.facebook.soloader.nativeloader;

public class SystemDelegate implements NativeLoaderDelegate {
  @Override
  public boolean loadLibrary(String name, int flags) {
    System.loadLibrary(name);
    return true;
  }
}
