package org.json;

public class JSONObject {
  public JSONObject() {}

  public JSONObject(String json) throws JSONException {}

  public native JSONObject put(String name, int value) throws JSONException;

  public native JSONObject put(String name, long value) throws JSONException;

  public native JSONObject put(String name, double value) throws JSONException;

  public native JSONObject put(String name, Object value) throws JSONException;
}
