"""The environments in which kz starts git: one reaches upstream, the other only reads and writes objects."""

from __future__ import annotations

import os

from kz_build.core.env import networked, of_helpers, plain


def upstream_environment(*more: tuple[str, str]) -> dict[str, str]:
    """Environment in which git reaches upstream as it does for the user, but runs no hook of theirs, signs nothing and answers
    in UTF-8; with more of git's settings in place of theirs."""
    own = ("commit.gpgSign", "false"), ("log.showSignature", "false"), ("i18n.logOutputEncoding", "UTF-8")
    return {**of_helpers(), **networked((("core.hooksPath", os.devnull), *own, *more))}


def local_environment() -> dict[str, str]:
    """Environment in which git only reads and writes objects: no user configuration, no hook, no lazy fetch."""
    return {
        **plain(),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": os.devnull,
        "GIT_CONFIG_KEY_1": "log.mailmap",  # upstream's, which the clone need not have
        "GIT_CONFIG_VALUE_1": "false",
        "GIT_CONFIG_KEY_2": "log.showSignature",  # it would stand in the output, as one more line
        "GIT_CONFIG_VALUE_2": "false",
    }
