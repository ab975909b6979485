"""pins.yaml and pins.lock: schema, reading, the project that they make."""
