"""Results turned into text for people or JSON for programs. Facts never live here."""
