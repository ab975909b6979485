package android.util;

public final class Log {
  public static native int i(String tag, String text);

  public static native int e(String tag, String text, Throwable error);
}
