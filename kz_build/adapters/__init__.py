"""The only code that touches the world: processes, git, http, files, ELF."""
