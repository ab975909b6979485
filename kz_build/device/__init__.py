"""Real devices over adb: info, push, checks, runs, metrics, baselines, models in apps."""
