"""The container daemon that DOCKER_HOST names, by Docker's SDK, with its failures as kz's errors."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kz_build.core import env as environment
from kz_build.core.command_log import Commands
from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError, UnreachableError
from kz_build.core.paths import files_below

SOCKET = "/var/run/docker.sock"
OWN = "kz_build"
"""Label of every container, volume and image that kz creates."""


@dataclass(frozen=True)
class Image:
    """An image, described by its folder and its base. `base` is what the Dockerfile starts FROM, `base_is` its content
    (a digest, or the ids of its layers: an imported root gets another id at each import). `apt` is a mirror instead of the
    base's own apt snapshot."""

    folder: Path
    base: str
    base_is: str
    apt: str = ""

    @property
    def key(self) -> str:
        """Return the sha256 of all that can change the image."""
        parts = [self.base_is, "mirror" if self.apt else "snapshot"]
        for path in self.files():
            parts += [path.relative_to(self.folder.parent).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def tag(self) -> str:
        """Return its name at the daemon, by content."""
        return f"kz-{self.folder.name}:{self.key[:20]}"

    def files(self) -> list[Path]:
        """Return the files that the daemon builds it from: its folder, and the files beside it that images share."""
        beside = [path for path in self.folder.parent.iterdir() if path.is_file()]
        return sorted([*beside, *files_below(self.folder)])

    def context(self) -> io.BytesIO:
        """Return these files as a tar."""
        tar_file = io.BytesIO()
        with tarfile.open(fileobj=tar_file, mode="w") as tar:
            for path in self.files():
                info = tarfile.TarInfo(path.relative_to(self.folder.parent).as_posix())
                info.size, info.mode = path.stat().st_size, 0o644
                tar.addfile(info, io.BytesIO(path.read_bytes()))
        tar_file.seek(0)
        return tar_file


class Daemon:
    """A daemon that answered. `memory` in bytes and `cores` are its machine's, which need not be this one."""

    def __init__(self, client: Any, address: str) -> None:
        self.api = client.api
        self.address = address
        with self.kz_errors("what it is"):
            info = self.api.info()
        self.memory, self.cores = int(info["MemTotal"]), int(info["NCPU"])

    @contextlib.contextmanager
    def kz_errors(self, request: str) -> Iterator[None]:
        """Turn the SDK's errors into kz's: the daemon refuses, or is gone."""
        import docker.errors
        import requests
        import urllib3

        try:
            yield
        except docker.errors.APIError as error:
            raise UnreachableError(f"the container daemon refuses {request}: {error.explanation or error}") from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            ConnectionError,
            TimeoutError,
            tarfile.TarError,
        ) as error:
            raise UnreachableError(
                f"the container daemon at {self.address} no longer answers ({request})",
                hint="look at its log, and whether its machine has memory and disk left; the same command continues from here",
            ) from error

    def layers(self, name: str) -> str:
        """Return what identifies the content of a local image. Raises MissingError if the daemon has none of that name."""
        import docker.errors

        with self.kz_errors(f"image {name}"):
            try:
                details = self.api.inspect_image(name)
            except docker.errors.ImageNotFound:
                missing = Missing(f"image {name}", f"BASE_IMAGE names it, {self.address} has none", _IMPORT)
                raise MissingError((missing,)) from None
        return " ".join(details["RootFS"]["Layers"])

    def id(self, image: Image) -> str:
        """Return the daemon's own id of an image that it has: the digest of its configuration."""
        with self.kz_errors(f"image {image.tag}"):
            return str(self.api.inspect_image(image.tag)["Id"])

    def digest(self, repository: str, tag: str) -> str:
        """Return the digest of a tag in its registry, by the daemon. Raises CommandError if it does not answer."""
        with self.kz_errors(f"the digest of {repository}:{tag}"):
            return str(self.api.inspect_distribution(f"{repository}:{tag}")["Descriptor"]["digest"])

    def ensure(self, image: Image, commands: Commands) -> None:
        """Build an image unless the daemon has it already."""
        import docker.errors

        with self.kz_errors(f"image {image.tag}"), contextlib.suppress(docker.errors.ImageNotFound):
            self.api.inspect_image(image.tag)
            return
        arguments = {"BASE": image.base, "APT_MIRROR": image.apt}

        def build(argv: object, cwd: Path, env: object, line: Callable[[bytes], None]) -> int:
            with self.kz_errors(f"to build {image.tag}"):
                for message in self.api.build(
                    fileobj=image.context(),
                    custom_context=True,
                    dockerfile=f"{image.folder.name}/Dockerfile",
                    tag=image.tag,
                    buildargs=arguments,
                    labels={OWN: image.key},
                    network_mode="host",
                    rm=True,
                    forcerm=True,
                    decode=True,
                ):
                    for text in (message.get("stream") or message.get("error") or "").splitlines():
                        line(f"{text}\n".encode())
                    if "error" in message:
                        return int(message.get("errorDetail", {}).get("code") or 1)
            return 0

        options = [word for key, value in arguments.items() if value for word in ("--build-arg", f"{key}={value}")]
        file = f"{image.folder.name}/Dockerfile"
        argv = ["docker", "build", "-t", image.tag, "--network", "host", "-f", file, *options, "."]
        commands.run(f"image-{image.folder.name}", argv, cwd=image.folder.parent, env={}, program=build)

    def require_internal(self, network: str) -> None:
        """Raise ConfigError unless a network is internal to Docker."""
        with self.kz_errors(f"network {network}"):
            networks = self.api.networks(names=[network])
        if not any(n["Name"] == network and n.get("Internal") for n in networks):
            raise ConfigError(
                f"KZ_CCACHE_NETWORK={network} is no internal network of {self.address}",
                hint=f"docker network create --internal {network}, and the cache's container on it",
            )


_IMPORT = "containers/base/make >base.tar && docker import base.tar NAME, or a name that `docker images` shows"
_REMEDY = "apt install docker.io && adduser $USER docker\nexport DOCKER_HOST=tcp://HOST:PORT\n--engine host"


def is_configured() -> bool:
    """Whether this machine is set up for a daemon. Cheap: imports and asks nothing."""
    return bool(environment.docker().get("DOCKER_HOST")) or Path(SOCKET).exists()


def connect() -> Daemon:
    """Connect to the daemon. Raises MissingError if none answers."""
    import docker
    import docker.errors
    import requests

    variables = environment.docker()
    address = variables.get("DOCKER_HOST") or f"unix://{SOCKET}"
    try:
        client = docker.DockerClient.from_env(version="auto", timeout=60, environment=variables)
        return Daemon(client, address)
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        CommandError,
        OSError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # the last three: an address that is none, or an answer that is not a daemon's
        missing = Missing(f"a container daemon at {address}", f"engine docker runs in one; {_line(error)}", _REMEDY)
        raise MissingError((missing,)) from error


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
