package android.content;

public abstract class Context {
  public android.content.pm.ApplicationInfo getApplicationInfo() {
    return null;
  }

  public java.io.File getFilesDir() {
    return null;
  }
}
