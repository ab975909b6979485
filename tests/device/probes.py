"""Stand-ins of Android and of upstream's Java side, so that kz's probe compiles and runs on this machine's Java."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from kz_build.device.probe_app import OURS

_ANDROID = {
    "android.app.Activity": """
import android.content.Intent; import android.content.pm.ApplicationInfo; import android.os.Bundle; import java.io.File;
public class Activity {
  public static final java.util.concurrent.CountDownLatch DONE = new java.util.concurrent.CountDownLatch(1);
  public Intent intent;
  protected void onCreate(Bundle state) {}
  public Intent getIntent() { return intent; }
  public File getFilesDir() { return new File(System.getProperty("kz.files")); }
  public ApplicationInfo getApplicationInfo() { return new ApplicationInfo(); }
  public void finish() { DONE.countDown(); }
}""",
    "android.content.Intent": """
public class Intent {
  public final java.util.Map<String, String> extras = new java.util.HashMap<>();
  public String getStringExtra(String name) { return extras.get(name); }
  public int getIntExtra(String name, int other) { return extras.containsKey(name) ? Integer.parseInt(extras.get(name)) : other; }
  public float getFloatExtra(String name, float other) { return extras.containsKey(name) ? Float.parseFloat(extras.get(name)) : other; }
}""",
    "android.content.pm.ApplicationInfo": 'public class ApplicationInfo { public String nativeLibraryDir = "/libs"; }',
    "android.os.Bundle": "public class Bundle {}",
    "android.os.Process": "public class Process { public static int myPid() { return 7; } public static int myUid() { return 10007; } }",
    "android.system.Os": """
public class Os { public static void setenv(String name, String value, boolean over) { System.setProperty(name, value); } }""",
    "android.util.Log": """
public class Log {
  public static int i(String tag, String text) { System.out.println(text); return 0; }
  public static int e(String tag, String text, Throwable why) { System.out.println(text + why); return 0; }
}""",
    "org.json.JSONException": "public class JSONException extends Exception {}",
    "org.json.JSONObject": """
public class JSONObject {
  private final java.util.Map<String, Object> held = new java.util.LinkedHashMap<>();
  private final String raw;
  public JSONObject() { raw = null; }
  public JSONObject(String text) throws JSONException { raw = text; }
  public JSONObject put(String name, Object value) throws JSONException { held.put(name, value); return this; }
  public JSONObject put(String name, int value) throws JSONException { return put(name, (Object) value); }
  public JSONObject put(String name, long value) throws JSONException { return put(name, (Object) value); }
  public JSONObject put(String name, double value) throws JSONException { return put(name, (Object) value); }
  private static String quoted(String text) {
    StringBuilder to = new StringBuilder("\\"");
    for (char one : text.toCharArray()) to.append(one < 32 || one == '"' || one == '\\\\' ? String.format("\\\\u%04x", (int) one) : one);
    return to.append('"').toString();
  }
  public String toString() {
    if (raw != null) return raw;
    StringBuilder to = new StringBuilder("{");
    held.forEach((name, value) -> {
      if (value != null) to.append(to.length() > 1 ? "," : "").append(quoted(name)).append(":").append(value instanceof String ? quoted((String) value) : value);
    });
    return to.append("}").toString();
  }
}""",
}
_LLM = "org.pytorch.executorch.extension.llm"
# What differs for a caller between upstream's v1.2.0 (Java) and v1.4.1 (Kotlin, so that no method of the interface has a body).
_CALLBACK = {
    "1.2": "public interface LlmCallback { void onResult(String result); default void onStats(String stats) {} }",
    "1.4": "public interface LlmCallback { void onResult(String result); void onStats(String stats); void onError(int code, String message); }",
}
_LOAD = {
    "1.2": 'public int load() { return Integer.getInteger("kz.status", 0); }',
    "1.4": 'public void load() { if (Integer.getInteger("kz.status", 0) != 0) throw new RuntimeException("[ExecuTorch Error 0x20] Failed to load model"); }',
}
STATS = {
    "prompt_tokens": 20, "generated_tokens": 30, "model_load_start_ms": 0, "model_load_end_ms": 0,
    "inference_start_ms": 1_700_000_000_000, "inference_end_ms": 1_700_000_001_613,
    "prompt_eval_end_ms": 1_700_000_000_113, "first_token_ms": 1_700_000_000_113, "aggregate_sampling_time_ms": 5,
    "SCALING_FACTOR_UNITS_PER_SECOND": 1000,
}  # fmt: skip
"""As stats_to_json_string of upstream's extension/llm/runner/stats.h writes it."""
_MODULE = """
public class LlmModule {
  public static final int MODEL_TYPE_TEXT = 1;
  private final String made;
  public LlmModule(int modelType, String modulePath, String tokenizerPath, float temperature) {
    if (System.getProperty("ADSP_LIBRARY_PATH") == null) throw new IllegalStateException("too late for ADSP_LIBRARY_PATH");
    if (Boolean.getBoolean("kz.unlinked")) throw new UnsatisfiedLinkError("dlopen failed: library libcdsprpc.so not found");
    made = modelType + " " + modulePath + " " + tokenizerPath + " " + temperature;
  }
  %s
  public void resetNative() { System.out.println("released"); }
  public %s generate(String prompt, int seqLen, LlmCallback callback, boolean echo) {
    callback.onResult("<" + prompt + "> ");
    callback.onResult(made + " " + seqLen + " " + echo);
    if (!Boolean.getBoolean("kz.fails")) callback.onStats(System.getProperty("kz.stats"));
    %s
  }
}"""
_MAIN = """
public class Main {
  public static void main(String[] words) throws Exception {
    kz.ProbeActivity made = new kz.ProbeActivity();
    made.intent = new android.content.Intent();
    for (int at = 0; at < words.length; at += 2) made.intent.extras.put(words[at], words[at + 1]);
    java.lang.reflect.Method create = kz.ProbeActivity.class.getDeclaredMethod("onCreate", android.os.Bundle.class);
    create.setAccessible(true);
    create.invoke(made, (Object) null);
    android.app.Activity.DONE.await();
  }
}"""


def compiled(folder: Path, version: str) -> Path:
    """kz's probe, compiled beside stand-ins of Android and of upstream's classes as that version has them."""
    module = _MODULE % (_LOAD[version], *(("int", "return 0;") if version == "1.2" else ("void", "")))
    sources = {**_ANDROID, f"{_LLM}.LlmCallback": _CALLBACK[version], f"{_LLM}.LlmModule": module}
    for name, text in sources.items():
        path = folder / "src" / f"{name.replace('.', '/')}.java"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"package {name.rpartition('.')[0]};\n{text}\n")
    (folder / "src/Main.java").write_text(_MAIN)
    files = [*map(str, (folder / "src").rglob("*.java")), str(OURS / "ProbeActivity.java")]
    done = subprocess.run(
        ["javac", "-Xlint:all,-serial", "-Werror", "--release", "11", "-d", folder / "classes", *files],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "classes"


def ran(classes: Path, files: Path, extras: dict[str, str], **properties: str) -> str:
    """What the probe leaves in its folder when it is started with these extras."""
    files.mkdir(exist_ok=True)
    given = {"kz.files": str(files), "kz.stats": json.dumps(STATS), **{f"kz.{k}": v for k, v in properties.items()}}
    words = [word for pair in extras.items() for word in pair]
    argv = ["java", *(f"-D{k}={v}" for k, v in given.items()), "-cp", str(classes), "Main", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (files / "kz_probe.part").exists()
    return (files / "kz_probe.json").read_text()
