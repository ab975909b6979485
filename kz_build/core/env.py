"""The environment of this process, read here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from kz_build.core.errors import ConfigError, Missing, MissingError
from kz_build.core.escape import without_secrets

# What a child process needs; none of it may change what is built.
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR")
# How this machine reaches the network: git, requests and pip understand these themselves.
_NETWORK = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "SSH_AUTH_SOCK",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_ASKPASS",
    "GIT_ALLOW_PROTOCOL",
)
_PIP = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_CONFIG_FILE",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TRUSTED_HOST",
    "PIP_KEYRING_PROVIDER",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_TIMEOUT",
    "PIP_CACHE_DIR",
    "PIP_NO_CACHE_DIR",
    "XDG_CACHE_HOME",
)


def variable(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def add_to_job_summary(text: str) -> None:
    """Append to the summary of a job on GitHub; elsewhere do nothing."""
    if path := variable("GITHUB_STEP_SUMMARY"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


_servers: dict[str, str] = {}
"""An address of a server -> the same with the user and password that this process was given for it."""
_queries: dict[str, str] = {}
"""An address, perhaps with `{version}` in it -> the query that signs it."""


def public_address(url: str) -> str:
    """Return an address without its password or signature. `networked` and `with_password` know them from now on.

    So they are in no argument of a process, no file and no message.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    user, at, host = parts.netloc.rpartition("@")
    if at and parts.scheme in ("http", "https", "redis", "rediss"):
        _servers[f"{parts.scheme}://{host}"] = f"{parts.scheme}://{parts.netloc}"
        parts = parts._replace(netloc=host)
    elif ":" in user:  # ssh takes no password from an address
        parts = parts._replace(netloc=f"{user.partition(':')[0]}@{host}")
    if parts.query and without_secrets(f"?{parts.query}") != f"?{parts.query}":
        query, parts = parts.query, parts._replace(query="", fragment="")
        _queries[urlunsplit(parts)] = query
    return urlunsplit(parts) if parts != urlsplit(url) else url


def with_password(url: str) -> str:
    """Return a public address with the password or signature that this process was given for it: for a request, not to show."""
    for public, query in _queries.items():
        before, _, after = public.partition("{version}")
        if url == public or after and url.startswith(before) and url.endswith(after):
            url = f"{url}?{query}"
            break
    parts = urlsplit(url)
    server = _servers.get(f"{parts.scheme}://{parts.netloc}")
    return url if server is None else urlunsplit(parts._replace(netloc=urlsplit(server).netloc))


def _git_settings(variables: Mapping[str, str], settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return variables with more settings for git than it has in these: they are in no argument that others see."""
    count = variables.get("GIT_CONFIG_COUNT") or "0"
    if not count.isdecimal():
        raise ConfigError(f"GIT_CONFIG_COUNT must be a number, and is {count!r}", hint="unset GIT_CONFIG_COUNT")
    first = int(count)
    more: dict[str, str] = {}
    for number, (key, value) in enumerate(settings, first):
        more |= {
            f"GIT_CONFIG_KEY_{number}": key,
            f"GIT_CONFIG_VALUE_{number}": value,
            "GIT_CONFIG_COUNT": str(number + 1),
        }
    return more


def cache_root() -> Path:
    """Return the store's real path: KZ_CACHE, or a folder in the user's cache folder."""
    named = variable("KZ_CACHE")
    return (Path(named).expanduser() if named else _xdg_folder("XDG_CACHE_HOME", ".cache")).resolve()


def temporary_root() -> Path:
    """Return the folder for temporary files. Python's own search for one leaves a file there if it is killed."""
    named = Path(variable("TMPDIR", "/tmp"))
    return named.absolute() if named.is_dir() else Path("/tmp")


def config_root() -> Path:
    """Return the folder of the user's decisions: KZ_CONFIG, or a folder in the user's configuration folder."""
    named = variable("KZ_CONFIG")
    return Path(named).expanduser().absolute() if named else _xdg_folder("XDG_CONFIG_HOME", ".config")


def _xdg_folder(name: str, default: str) -> Path:
    """Return kz's folder by the XDG rule, which accepts only an absolute path."""
    base = variable(name)
    return (Path(base) if base.startswith("/") else Path.home() / default) / "kz_build"


def plain() -> dict[str, str]:
    """Return the environment for local tools: paths only, the C locale, no configuration."""
    variables = {name: os.environ[name] for name in _PLAIN if name in os.environ}
    return {**variables, "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC"}


def networked(settings: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the environment for tools that reach upstream: the plain one, this machine's network settings, and more
    settings for git. It knows the passwords of servers that this process was given.

    Git uses only its own protocols, so that no address in a file or at upstream can name a program to run. It gives a web
    server up that sends nothing for ten minutes; one that works on an answer sends a sign of life each five seconds.
    """
    variables = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
    variables |= {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": "600"}
    variables |= {name: os.environ[name] for name in _NETWORK if name in os.environ}
    variables.update(
        {name: value for name, value in os.environ.items() if name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))}
    )
    passwords = [
        (f"url.{server}/.insteadOf", f"{public}/") for public, server in _servers.items() if server.startswith("http")
    ]
    return {**plain(), **variables, **_git_settings(variables, [*passwords, *settings]), "GIT_TERMINAL_PROMPT": "0"}


def of_helpers() -> dict[str, str]:
    """Return the variables that git's helpers may need to answer for this user: all but git's own, the language, and those
    of Python and the loader.

    A credential helper asks the desktop's keyring, an agent or a token (DBUS_SESSION_BUS_ADDRESS, GH_TOKEN, GNUPGHOME); no
    list has them all.
    """
    others = ("GIT_", "LC_", "LANG", "TZ", "PYTHON", "LD_", "KZ_")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


def pip(indexes: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment for pip: the networked one, and where pip looks for packages, in `indexes` too; not where it
    installs."""
    variables = {name: os.environ[name] for name in _PIP if name in os.environ}
    return {**networked(), **variables, **_more_indexes("PIP_EXTRA_INDEX_URL", indexes), "PYTHONNOUSERSITE": "1"}


def uv(indexes: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment for uv: the networked one, its own settings, and more indexes; not where it installs."""
    own = {name: value for name, value in os.environ.items() if name.startswith("UV_")}
    return {**networked(), **own, **_more_indexes("UV_EXTRA_INDEX_URL", indexes)}


def _more_indexes(name: str, indexes: Sequence[str]) -> dict[str, str]:
    """Return a variable with more package indexes than it has: an argument would show their passwords to every process."""
    return {name: " ".join([variable(name), *map(with_password, indexes)]).strip()} if indexes else {}


def docker() -> dict[str, str]:
    """Return how this machine reaches a container daemon: Docker's own variables."""
    return {
        name: os.environ[name]
        for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
        if name in os.environ
    }


def adb() -> dict[str, str]:
    """Return the environment for adb: the plain one, and what adb itself reads."""
    return {
        **plain(),
        **{name: value for name, value in os.environ.items() if name.startswith(("ADB_", "ANDROID_ADB_"))},
    }


def ca_bundle() -> str:
    """Return the certificates that pip must trust, or ''; requests reads its own variables."""
    return variable("PIP_CERT") if not variable("REQUESTS_CA_BUNDLE") else ""


def index_url(own: str = "") -> str:
    """Return the package index of a wheel: its own, or PIP_INDEX_URL, or PyPI."""
    return public_address((own or variable("PIP_INDEX_URL") or _pip_default_index()).rstrip("/"))


def _pip_default_index() -> str:
    """Return the index that pip uses by default."""
    try:
        from pip._internal.models.index import PyPI  # pip prints it in its help, and offers no other way to ask
    except ImportError:
        missing = Missing("a package index", "this Python has no pip to take it from", "export PIP_INDEX_URL=ADDRESS")
        raise MissingError((missing,)) from None
    return str(PyPI.simple_url)
