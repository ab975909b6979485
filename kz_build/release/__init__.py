"""What lies beside artifacts: provenance, SBOM, notices, signature, AAR."""
