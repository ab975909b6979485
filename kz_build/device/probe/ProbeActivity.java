package kz;

import android.app.Activity;
import android.content.Intent;
import android.os.Bundle;
import android.os.Process;
import android.system.Os;
import android.util.Log;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;
import org.json.JSONException;
import org.json.JSONObject;
import org.pytorch.executorch.extension.llm.LlmCallback;
import org.pytorch.executorch.extension.llm.LlmModule;

/**
 * Loads a model once and generates once in this app's own process, which Zygote forked, and leaves what it saw in
 * files/kz_probe.json.
 *
 * <p>Extras: run (given back), model, tokenizer, prompt, model_type (LlmModule's), seq_len, temperature, memory (1: measure it,
 * which slows the run down).
 */
public final class ProbeActivity extends Activity {
  private static final String TAG = "kz-probe";
  private static final String STATUS = "/proc/self/status";
  private static final int EVERY_MS = 50; // as kz_probe in a shell

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    Intent asked = getIntent();
    Thread work = new Thread(() -> work(asked), TAG);
    work.start();
  }

  private void work(Intent asked) {
    JSONObject said = new JSONObject();
    try {
      said.put("run", asked.getStringExtra("run"));
      said.put("pid", Process.myPid());
      said.put("uid", Process.myUid());
      said.put("ppid", number(STATUS, "PPid:"));
      said.put("context", first("/proc/self/attr/current"));
      try {
        run(asked, said);
      } catch (Throwable error) { // an UnsatisfiedLinkError is one of those that matter most
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        said.put("error", text.toString());
      }
      said.put("peak_rss_kb", number(STATUS, "VmHWM:"));
      leave(said.toString());
    } catch (IOException | JSONException error) {
      Log.e(TAG, "the result cannot be written", error);
    }
    finish();
  }

  private void run(Intent asked, JSONObject said) throws Exception {
    // Where FastRPC looks for the DSP's libraries: before the first of them is asked for.
    Os.setenv("ADSP_LIBRARY_PATH", getApplicationInfo().nativeLibraryDir, true);
    Log.i(TAG, "loading");
    long start = System.nanoTime();
    LlmModule module =
        new LlmModule(
            asked.getIntExtra("model_type", LlmModule.MODEL_TYPE_TEXT),
            asked.getStringExtra("model"),
            asked.getStringExtra("tokenizer"),
            asked.getFloatExtra("temperature", 0f));
    // Gives a status up to 1.3, nothing and an exception from 1.4 on: asked by name, so that both compile.
    Object status = LlmModule.class.getMethod("load").invoke(module);
    said.put("load_ms", (System.nanoTime() - start) / 1e6);
    said.put("load_status", status instanceof Integer ? status : 0);
    if (status instanceof Integer && (Integer) status != 0) {
      return;
    }
    Log.i(TAG, "loaded, generating");
    Memory memory = asked.getIntExtra("memory", 0) == 1 ? new Memory() : null;
    Listener listener = new Listener();
    module.generate(asked.getStringExtra("prompt"), asked.getIntExtra("seq_len", 128), listener, false);
    said.put("total_ms", (System.nanoTime() - listener.start) / 1e6);
    if (memory != null) {
      memory.end();
      module.resetNative();
      said.put("pss_loaded_kb", memory.loaded);
      said.put("pss_peak_kb", memory.peak);
      said.put("pss_released_kb", pss());
    }
    said.put("text", listener.text.toString());
    if (listener.firstAt != 0) {
      said.put("first_token_ms", (listener.firstAt - listener.start) / 1e6);
    }
    if (listener.stats != null) { // a generate that failed gives none: upstream's JNI drops its error
      said.put("stats", new JSONObject(listener.stats));
    }
    if (listener.failure != null) {
      said.put("error", listener.failure);
    }
    Log.i(TAG, "generated");
  }

  private static final class Listener implements LlmCallback {
    final StringBuilder text = new StringBuilder();
    final long start = System.nanoTime();
    long firstAt;
    String stats;
    String failure;

    @Override
    public void onResult(String piece) {
      if (firstAt == 0) {
        firstAt = System.nanoTime();
      }
      text.append(piece);
    }

    @Override
    public void onStats(String json) {
      stats = json;
    }

    // Of the interface from 1.4 on.
    public void onError(int code, String message) {
      failure = "error " + code + ": " + message;
    }
  }

  /** This process's proportional set size: now, and the most until the end. */
  private static final class Memory {
    final long loaded = pss();
    volatile long peak = loaded;
    private final AtomicBoolean over = new AtomicBoolean();
    private final Thread thread = new Thread(this::watch, "kz-memory");

    Memory() {
      thread.start();
    }

    private void watch() {
      while (!over.get()) {
        peak = Math.max(peak, pss());
        try {
          Thread.sleep(EVERY_MS);
        } catch (InterruptedException stop) {
          return;
        }
      }
    }

    void end() throws InterruptedException {
      over.set(true);
      thread.join();
    }
  }

  /** In kB; 0 where the kernel does not say (before 4.14). */
  private static long pss() {
    try {
      return number("/proc/self/smaps_rollup", "Pss:");
    } catch (IOException error) {
      return 0;
    }
  }

  /** Under its name only when it is whole. */
  private void leave(String json) throws IOException {
    File part = new File(getFilesDir(), "kz_probe.part");
    try (OutputStream to = new FileOutputStream(part)) {
      to.write(json.getBytes(StandardCharsets.UTF_8));
    }
    if (!part.renameTo(new File(getFilesDir(), "kz_probe.json"))) {
      throw new IOException("kz_probe.json");
    }
  }

  /** The number behind a name in a file of /proc: kB, or a process. */
  private static long number(String file, String name) throws IOException {
    try (BufferedReader lines = new BufferedReader(new FileReader(file))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        if (line.startsWith(name)) {
          return Long.parseLong(line.replaceAll("[^0-9]", ""));
        }
      }
    }
    return 0;
  }

  private static String first(String file) throws IOException {
    try (BufferedReader lines = new BufferedReader(new FileReader(file))) {
      String line = lines.readLine();
      return line == null ? "" : line.replace("\0", "").trim();
    } catch (IOException error) {
      return "";
    }
  }
}
