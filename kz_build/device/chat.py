"""Chat templates of models: data files of kz."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import ConfigError

FOLDER = Path(__file__).with_name("chats")


class Chat(NamedTuple):
    """A model's prompt format. `decoder` is upstream's name of the model's family, '' if its QNN runner has none."""

    name: str
    template: str
    decoder: str
    source: str

    def say(self, prompt: str) -> str:
        """Return a prompt as the model takes it."""
        return self.template.replace("{prompt}", prompt)


def chats() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def chat(name: str) -> Chat:
    """Return a template by name; '' for a model that takes a prompt as it is. Raises ConfigError for an unknown one."""
    if not name:
        return Chat("", "{prompt}", "", "")
    if name not in chats():
        raise ConfigError(f"there is no chat template {name!r}", hint=f"known: {', '.join(chats())}")
    import yaml

    return Chat(name, **yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
