"""What is built from: fetch, store, integrity, clones, licences, installed SDKs."""
