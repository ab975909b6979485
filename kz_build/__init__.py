"""kz_build: pins, patches, builds and proofs for ExecuTorch on Android."""

__version__ = "0.1.0"
