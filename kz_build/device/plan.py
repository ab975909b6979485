"""trial: a project and a wish -> what is tried on devices. Everything that is missing here is said before one is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError, LockError, Missing, MissingError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.stage_record import changed, load_any
from kz_build.device.chat import Chat, chat, chats
from kz_build.device.push_set import BACKEND, Given, push_set
from kz_build.device.trial import PROGRAM, Trial, Wish
from kz_build.export import load as recipes
from kz_build.export import plan as export
from kz_build.export.recipe import PLACEHOLDER, Recipe
from kz_build.formats.pte import read_pte
from kz_build.formats.pte_types import QNN, Pte
from kz_build.formats.qnn_sdk import qnn_runtime
from kz_build.pins.project import Project
from kz_build.pins.soc import arch_of
from kz_build.sources import installed_sdk

_MODES = {"kv": "0", "hybrid": "1"}
"""What upstream's qnn_llama_runner calls them (--eval_mode)."""
_SDK = "qnn-sdk"


def trial(project: Project, wish: Wish) -> Trial:
    """Raises ConfigError, MissingError with all that is missing, LockError where dist is not what was built."""
    if wish.recipe and wish.pte:
        raise ConfigError("--recipe and --pte are two models", hint="a recipe names its own file")
    recipe = recipes.named(project.root, project.pins, wish.recipe) if wish.recipe else None
    line = wish.line or (recipe.line if recipe and recipe.line else project.pins.default)
    name = wish.target or project.pins.targets[0]
    target = _target(project, line, name)
    use = target["device"]
    model = _model(project, wish, recipe, use)
    given = _given(project, wish, recipe, model)
    dist = _dist(project, line, name, given)
    pte = read_pte(model) if model and model.suffix == ".pte" and model.is_file() else None
    qnn = _is_qnn(dist, pte, recipe)
    own = next((stage.run for stage in recipe.command if stage.where == "device"), ()) if recipe else ()
    if own:  # it brings its own runner, and libraries for that
        dist = {PROGRAM: dist[PROGRAM]}
    asked = chat(wish.chat or (recipe.chat if recipe else ""))
    argv, why = (tuple(own), "") if own else _argv(use, wish, asked, model, given, pte, recipe)
    return Trial(
        line=line,
        target=name,
        abi=target["abi"],
        folder=project.dist_folder(line, name),
        dist=dist,
        runtime=_runtime(project, wish) if qnn else {},
        given=given,
        loads=() if own else tuple(use["loads"]),
        recipe=wish.recipe,
        model=model,
        pte=pte,
        contract=recipe.contract if recipe else None,
        qnn=qnn,
        argv=argv,
        no_run=why,
        wanted=bool(wish.recipe or wish.pte),
        text="" if own else use["text"],
        prompt=wish.prompt or use["prompt"],
        asked=asked.say(wish.prompt or use["prompt"]),
        tokens=wish.tokens,
        seconds=wish.seconds,
    )


def _target(project: Project, line: str, name: str) -> dict[str, Any]:
    pins = project.pins.line(line)
    target = project.pins.target(name, line)
    if lacks := [source for source in target["sources"] if source not in pins]:
        able = [other for other in project.pins.lines if set(target["sources"]) <= set(project.pins.line(other))]
        raise ConfigError(
            f"line {line} builds no {name}: it has no {', '.join(lacks)}", hint=f"--line {' or '.join(able)}"
        )
    if not target["device"]:
        able = [other for other in project.pins.targets if project.pins.target(other, line)["device"]]
        hint = f"--target {' or '.join(able)}" if able else "docs/pins.md: `device` says what of a target is tried"
        raise ConfigError(f"pins.yaml does not say what of {name} is tried on a device", hint=hint)
    return target


def _dist(project: Project, line: str, target: str, given: tuple[Given, ...]) -> dict[str, Path]:
    """The build's files by name, proved to be what was built; where there is no build, what else is missing is told with it."""
    record = load_any(project.record("build", line, target))
    brings = f"kz build --line {line} --target {target}"
    if not record:
        more = (Missing(one.name, f"{one.path} is not there", one.brings) for one in given if not one.there)
        raise MissingError((Missing(f"{target} of {line}", "it was not built", brings), *more))
    folder = project.dist_folder(line, target)
    if path := changed(folder, record.outputs, lambda path: cached_sha256(project.store, path)):
        raise LockError(f"{path} is not what was built", hint=brings)
    found = {Path(name).name: folder / name for name, f in record.outputs.items() if f.profile != "symbols"}
    if PROGRAM not in found:
        raise ConfigError(f"{target} builds no {PROGRAM}", hint="docs/device.md: a cmake project with `source: kz`")
    return found


def _model(project: Project, wish: Wish, recipe: Recipe | None, use: Mapping[str, Any]) -> Path | None:
    if wish.pte:
        if not wish.pte.is_file():
            raise ConfigError(f"{wish.pte} is not there")
        return wish.pte.absolute()
    if recipe:
        return Path(export.plan(project, recipe.name).output)
    return project.root / use["model"] if use["model"] else None


def _given(project: Project, wish: Wish, recipe: Recipe | None, model: Path | None) -> tuple[Given, ...]:
    found = {}
    if model:
        brings = f"kz export {recipe.name}" if recipe else "another path"
        found[model.name] = Given(model, model.name, model.is_file(), brings)
    if recipe:
        found |= {name: _filled(project, wish, recipe, text, name) for text, name in recipe.device.items()}
    if wish.tokenizer:
        name = f"tokenizer{wish.tokenizer.suffix}"
        for other in [name for name in found if name.startswith("tokenizer")]:
            del found[other]
        found[name] = Given(wish.tokenizer.absolute(), name, wish.tokenizer.is_file(), "another path")
    return tuple(found.values())


def _filled(project: Project, wish: Wish, recipe: Recipe, text: str, name: str) -> Given:
    """A file that a recipe names by a folder in braces."""
    folders = {**export.own_places(project, recipe), **wish.folders}
    if wish.qnn and wish.qnn.is_dir():
        folders.setdefault(_SDK, wish.qnn)
    unknown = [used for used in PLACEHOLDER.findall(text) if used not in folders]
    path = Path(PLACEHOLDER.sub(lambda m: str(folders.get(m[1], m[0])), text))
    if unknown:
        return Given(path, name, False, " ".join(f"--from {used}=FOLDER" for used in unknown))
    return Given(path, name, path.is_file(), f"kz export {recipe.name}, or --from for another folder")


def _argv(
    use: Mapping[str, Any],
    wish: Wish,
    asked: Chat,
    model: Path | None,
    given: tuple[Given, ...],
    pte: Pte | None,
    recipe: Recipe | None,
) -> tuple[tuple[str, ...], str]:
    """The runner's argv, or () and why it cannot run."""
    if not model:
        return (), "no model: --recipe R or --pte FILE names one"
    if not use["run"]:
        return (), "this target builds no runner; --in-app runs a model in an app"
    contract = recipe.contract if recipe else None
    mode = (contract.runner if contract else "") or (pte.mode if pte else "")
    specs = [d.qnn for d in pte.delegates if d.qnn] if pte else []
    shared = (
        contract.shared_buffer
        if contract and contract.shared_buffer is not None
        else any(s.shared_buffer for s in specs)
    )
    prompt = wish.prompt or use["prompt"]
    values = {
        "model": model.name,
        "tokenizer": next((one.name for one in given if one.name.startswith("tokenizer")), ""),
        "prompt": prompt if use["template"] == "runner" else asked.say(prompt),
        "tokens": str(wish.tokens),
        "decoder": asked.decoder,
        "eval_mode": _MODES.get(mode, ""),
        "shared_buffer": str(bool(shared)).lower(),
    }
    needs = {
        "tokenizer": "--tokenizer FILE",
        "decoder": f"--chat {' or '.join(name for name in chats() if chat(name).decoder)}",
        "eval_mode": "a .pte with kv_forward: the runner of this target takes no other",
    }
    used = {name for word in use["run"] for name in PLACEHOLDER.findall(word)}
    if lacks := [f"{name}: {brings}" for name, brings in needs.items() if name in used and not values[name]]:
        if mode == "" and pte is not None and not pte.mode and "eval_mode" in used:
            return (
                (),
                f"the runner of this target runs QNN decoders, and {model.name} is none; --in-app runs it in an app",
            )
        raise ConfigError("the runner of this target needs more:", hint="; ".join(lacks))
    return tuple(PLACEHOLDER.sub(lambda m: values[m[1]], word) for word in use["run"]), ""


def _runtime(project: Project, wish: Wish) -> dict[str, Path]:
    """Qualcomm's libraries of --qnn, else of the SDK that the user has; {} without one."""
    if wish.qnn:
        return qnn_runtime(wish.qnn, project.store)
    env = project.pins.source(_SDK).options.get("installed") if _SDK in project.pins.data["sources"] else None
    there = installed_sdk.installed_folder(env["env"]) if env else None
    try:
        return qnn_runtime(there[1], project.store) if there and there[1].is_dir() else {}
    except ConfigError:
        return {}  # a view of it for this machine alone


def runtime_lacks(project: Project, line: str, name: str, recipe: str, soc: str, arch: str) -> tuple[Missing, ...]:
    """Qualcomm's libraries that a recipe's model needs on a device of this HTP arch, and nothing brings; before anything is built.

    `soc`: what the build is for, the target's where empty.
    """
    wanted = recipes.named(project.root, project.pins, recipe)
    target = project.pins.target(name, line)
    soc = soc or target["soc"]
    named = arch_of(soc).upper() if soc else ""
    built = {
        one.replace("{ARCH}", named): Path(one)
        for one, facts in target["prebuilt"].items()
        if (soc or not facts["soc"]) and not any(stage.where == "device" for stage in wanted.command)
    }
    if not (_is_qnn(target["outputs"], None, wanted) or QNN in wanted.contract.backends):
        return ()
    given = [Given(Path(), one, True, "") for one in wanted.device.values()]
    lacks = push_set(arch, built, _runtime(project, Wish(line=line, target=name)), given, qnn=True).missing
    brings = f"QNN_SDK_ROOT with Qualcomm's SDK, or --target and --soc whose build has them for {arch}"
    return tuple(one._replace(remedy=brings) if arch else one for one in lacks)


def _is_qnn(dist: Mapping[str, object], pte: Pte | None, recipe: Recipe | None) -> bool:
    compiled = any(delegate.backend == QNN for delegate in pte.delegates) if pte else False
    return compiled or BACKEND in dist or bool(recipe and recipe.contract.htp_arch)
