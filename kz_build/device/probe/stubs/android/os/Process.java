package android.os;

public class Process {
  public static native int myPid();

  public static native int myUid();
}
