// kz_probe: what `kz device check` and `kz device run` ask a device from inside.
//
//   kz_probe who                           what kind of process a program is there: user, SELinux context, ancestors
//   kz_probe load LIBRARY...               opens each as a Java VM does (RTLD_NOW, RTLD_LOCAL), in this order, keeping it
//   kz_probe run SECONDS PROGRAM [ARG...]  runs a program, ends it after SECONDS, says how long it took and its peak memory
//   kz_probe memory SECONDS PROGRAM [...]  the same, and its proportional set size (PSS) every 50 ms: "pss": [[ms, kB], ...]
//
// Each answer is a line "KzProbe {...}" on standard output. Times are milliseconds of the real-time clock, the clock that
// ExecuTorch's runners stamp their own figures with.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec * 1000.0 + (double)now.tv_nsec / 1e6;
}

static void print_text(const char* text) {
  putchar('"');
  for (; *text != '\0'; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      printf("\\%c", c);
    } else if (c < 0x20) {
      printf("\\u%04x", c);
    } else {
      putchar(c);
    }
  }
  putchar('"');
}

// The first line of a file, '' where it cannot be read.
static void first_line(const char* path, char* to, size_t size) {
  FILE* file = fopen(path, "r");
  to[0] = '\0';
  if (file == NULL) {
    return;
  }
  if (fgets(to, (int)size, file) == NULL) {
    to[0] = '\0';
  }
  to[strcspn(to, "\n")] = '\0';
  fclose(file);
}

static long parent_of(long pid) {
  char path[64];
  char line[512];
  snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
  first_line(path, line, sizeof(line));
  const char* after = strrchr(line, ')');  // the name before it may hold anything
  long parent = 0;
  return after != NULL && sscanf(after + 1, " %*c %ld", &parent) == 1 ? parent : 0;
}

static int who(void) {
  char text[512];
  first_line("/proc/self/attr/current", text, sizeof(text));
  printf("KzProbe {\"uid\": %ld, \"pid\": %ld, \"context\": ", (long)getuid(), (long)getpid());
  print_text(text);
  printf(", \"ancestors\": [");
  long pid = getppid();
  for (int i = 0; pid > 0 && i < 16; ++i) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
    first_line(path, text, sizeof(text));
    if (text[0] == '\0') {
      break;
    }
    printf(i == 0 ? "" : ", ");
    print_text(text);
    pid = parent_of(pid);
  }
  printf("]}\n");
  return 0;
}

static int load(int count, char** libraries) {
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    const double start = now_ms();
    void* library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    const char* error = library == NULL ? dlerror() : NULL;
    printf("KzProbe {\"pid\": %ld, \"library\": ", (long)getpid());
    print_text(libraries[i]);
    if (library == NULL) {
      failed = 1;
      printf(", \"error\": ");
      print_text(error != NULL ? error : "no reason given");
    } else {
      printf(", \"ms\": %.3f", now_ms() - start);
    }
    printf("}\n");
    fflush(stdout);  // the next one may end this process
  }
  return failed;
}

static volatile sig_atomic_t child = 0;

static void too_long(int sign) {
  (void)sign;
  if (child > 0) {
    kill((pid_t)child, SIGKILL);
  }
}

// The PSS of a process in kB, 0 where it cannot be read: it counts the pages of a mapped model too.
static long pss_of(pid_t pid) {
  char path[64];
  char line[128];
  long kilobytes = 0;
  snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", (long)pid);
  FILE* file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
    if (sscanf(line, "Pss: %ld kB", &kilobytes) == 1) {
      break;
    }
  }
  if (file != NULL) {
    fclose(file);
  }
  return kilobytes;
}

enum { kSamples = 16384, kEvery = 50 * 1000 * 1000 };

static double sample_ms[kSamples];
static long sample_kb[kSamples];

// Waits for a process, and samples its memory meanwhile. Of a long run every second sample is dropped, as often as needed.
static int sampled(pid_t pid, int* status, struct rusage* used) {
  int count = 0;
  long every = 1;
  for (long tick = 0;; ++tick) {
    const pid_t done = wait4(pid, status, WNOHANG, used);
    if (done == pid || (done < 0 && errno != EINTR)) {
      return count;
    }
    const long kilobytes = tick % every == 0 ? pss_of(pid) : 0;
    if (kilobytes > 0) {
      if (count == kSamples) {
        for (count = 0; count < kSamples / 2; ++count) {
          sample_ms[count] = sample_ms[count * 2];
          sample_kb[count] = sample_kb[count * 2] > sample_kb[count * 2 + 1] ? sample_kb[count * 2] : sample_kb[count * 2 + 1];
        }
        every *= 2;
      }
      sample_ms[count] = now_ms();
      sample_kb[count++] = kilobytes;
    }
    const struct timespec pause = {0, kEvery};
    nanosleep(&pause, NULL);
  }
}

static int run(unsigned seconds, char** argv, int memory) {
  signal(SIGALRM, too_long);
  fflush(stdout);
  const double start = now_ms();
  const pid_t pid = fork();
  if (pid == 0) {
    execv(argv[0], argv);
    fprintf(stderr, "kz_probe: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
  }
  if (pid < 0) {
    fprintf(stderr, "kz_probe: fork: %s\n", strerror(errno));
    return 1;
  }
  child = pid;
  alarm(seconds);
  int status = 0;
  struct rusage used;
  memset(&used, 0, sizeof(used));
  const int samples = memory ? sampled(pid, &status, &used) : 0;
  while (!memory && wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {
  }
  const double end = now_ms();
  const unsigned left = alarm(0);
  const int sign = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  printf(
      "\nKzProbe {\"pid\": %ld, \"start_ms\": %.3f, \"end_ms\": %.3f, \"exit\": %d, \"signal\": %d, \"stopped\": %s, "
      "\"max_rss_kb\": %ld",
      (long)pid, start, end, WIFEXITED(status) ? WEXITSTATUS(status) : -1, sign,
      sign == SIGKILL && left == 0 && seconds != 0 ? "true" : "false", used.ru_maxrss);
  for (int i = 0; i < samples; ++i) {
    printf("%s[%.0f, %ld]", i == 0 ? ", \"pss\": [" : ", ", sample_ms[i], sample_kb[i]);
  }
  printf("%s}\n", samples > 0 ? "]" : "");
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "who") == 0) {
    return who();
  }
  if (argc > 2 && strcmp(argv[1], "load") == 0) {
    return load(argc - 2, argv + 2);
  }
  if (argc > 3 && (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "memory") == 0)) {
    return run((unsigned)strtoul(argv[2], NULL, 10), argv + 3, argv[1][0] == 'm');
  }
  fprintf(stderr, "kz_probe: who | load LIBRARY... | run|memory SECONDS PROGRAM [ARG...]\n");
  return 2;
}
