"""Chat templates of models, as files of data that come with kz."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import ConfigError

FOLDER = Path(__file__).with_name("chats")


class Chat(NamedTuple):
    """How a model is addressed. `decoder` is upstream's name of the model's family, '' where its QNN runner knows none."""

    name: str
    template: str
    decoder: str
    source: str

    def say(self, prompt: str) -> str:
        """A prompt as the model takes it."""
        return self.template.replace("{prompt}", prompt)


def chats() -> tuple[str, ...]:
    """Names of all of them."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def chat(name: str) -> Chat:
    """One template; '' is a model that takes a prompt as it is. Raises ConfigError for an unknown one."""
    if not name:
        return Chat("", "{prompt}", "", "")
    if name not in chats():
        raise ConfigError(f"there is no chat template {name!r}", hint=f"known: {', '.join(chats())}")
    import yaml

    return Chat(name, **yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
