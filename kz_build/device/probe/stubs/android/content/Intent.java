package android.content;

public class Intent {
  public String getStringExtra(String name) {
    return null;
  }

  public int getIntExtra(String name, int otherwise) {
    return 0;
  }

  public float getFloatExtra(String name, float otherwise) {
    return 0;
  }
}
