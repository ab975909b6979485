package android.app;

public class Activity extends android.content.Context {
  protected void onCreate(android.os.Bundle state) {}

  public android.content.Intent getIntent() {
    return null;
  }

  public void finish() {}
}
