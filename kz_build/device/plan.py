"""trial: plan a run on devices. Raises with everything that this machine lacks before a device is contacted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kz_build.core.errors import ConfigError, LockError, Missing, MissingError
from kz_build.core.hash_cache import cached_sha256
from kz_build.core.stage_record import beside, changed, load_any
from kz_build.device.chat import Chat, chat, chats
from kz_build.device.push_set import BACKEND, InputFile, push_set
from kz_build.device.reply import Greedy, greedy
from kz_build.device.trial import PROGRAM, TOKENS, Timing, TrialPlan, TrialRequest
from kz_build.export import load as recipes
from kz_build.export import plan as export
from kz_build.export.recipe import PLACEHOLDER, Measurement, Recipe
from kz_build.formats.pte import read_pte
from kz_build.formats.pte_types import QNN, Pte
from kz_build.formats.qnn_sdk import qnn_runtime
from kz_build.formats.soc import arch_of
from kz_build.pins.project import Project
from kz_build.sources.installed_sdk import installed

_MODES = {"kv": "0", "hybrid": "1"}
"""Their numbers in upstream's qnn_llama_runner (--eval_mode)."""
_SDK = "qnn-sdk"
_NO_MODEL = "no model: --recipe R or --pte FILE names one"
_TEXT = "a small boat left the old harbour at dawn and sailed along the coast until the crew saw the light of a town "
_TOKENS_A_WORD = 2
"""More than tokenizers make of such words, so that a runner which counts prompt and answer together has room for both."""


def trial(project: Project, request: TrialRequest) -> TrialPlan:
    """Plan a trial. Raises ConfigError, MissingError with all that is missing, LockError if dist is not what was built."""
    if request.recipe and request.pte:
        raise ConfigError("--recipe and --pte name two models", hint="a recipe names its own file")
    recipe = recipes.named(project.root, project.pins, request.recipe) if request.recipe else None
    line = request.line or (recipe.line if recipe and recipe.line else project.pins.default)
    name = request.target or project.pins.first_target
    target = _target(project, line, name)
    use = target["device"]
    model = _model(project, request, recipe, use)
    inputs = _inputs(project, request, recipe, model)
    dist = _dist(project, line, name, inputs)
    pte = read_pte(model) if model and model.suffix == ".pte" and model.is_file() else None
    qnn = _is_qnn(dist, pte, recipe)
    own = next((stage.run for stage in recipe.command if stage.where == "device"), ()) if recipe else ()
    if own:  # it has its own runner, and libraries for that
        dist = {PROGRAM: dist[PROGRAM]}
    template = chat(request.chat or (recipe.chat if recipe else ""))
    measurement = recipe.run if recipe else Measurement()
    prompt = request.prompt or measurement.prompt or use["prompt"]
    tokens = request.tokens or measurement.tokens or TOKENS

    def asked(words: int = 0, more: Sequence[str] = ()) -> tuple[Timing, str]:
        text = _of_words(words) if words else prompt
        if own:
            return Timing(tuple(own), template.say(text), tokens=tokens), ""
        values = _values(use, template, text, (tokens, words), model, inputs, pte, recipe)
        argv, why = _argv([*use["run"], *more], values, model, pte) if model else ((), _NO_MODEL)
        return Timing(argv, template.say(text), words, tokens + _TOKENS_A_WORD * words), why

    check, no_run = asked()
    lengths = () if own else measurement.words
    return TrialPlan(
        line=line,
        target=name,
        abi=target["abi"],
        folder=project.dist_folder(line, name),
        dist=dist,
        runtime=_runtime(project, request) if qnn else {},
        inputs=tuple(inputs),
        loads=() if own else tuple(use["loads"]),
        recipe=request.recipe,
        model=model,
        pte=pte,
        contract=recipe.contract if recipe else None,
        qnn=qnn,
        argv=check.argv,
        no_run=no_run,
        required=bool(request.recipe or request.pte),
        text="" if own else use["text"],
        full_prompt=check.full_prompt,
        tokens=tokens,
        seconds=request.seconds,
        timed=tuple(asked(words, use["timed"])[0] for words in (0, *lengths)),
        ends=not own and not use["timed"],
        celsius=measurement.celsius,
        minutes=measurement.minutes,
        expected=measurement.expect if prompt == measurement.prompt else "",
        random=any(one.random for one in recipe.weights.values()) if recipe else False,
        rehearsal=_rehearsal(project, model),
    )


def _target(project: Project, line: str, name: str) -> dict[str, Any]:
    pins = project.pins.line(line)
    target = project.pins.target(name, line)
    if missing := [source for source in target["sources"] if source not in pins]:
        able = [other for other in project.pins.lines if project.pins.can_build(other, name)]
        raise ConfigError(
            f"line {line} builds no {name}: it has no {', '.join(missing)}", hint=f"--line {' or '.join(able)}"
        )
    if not target["device"]:
        able = [other for other in project.pins.targets if project.pins.target(other, line)["device"]]
        hint = (
            f"--target {' or '.join(able)}"
            if able
            else "kz's docs/reference/pins.md: `device` says what runs on devices"
        )
        raise ConfigError(f"pins.yaml does not say what of {name} runs on a device", hint=hint)
    return target


def _dist(project: Project, line: str, target: str, inputs: Sequence[InputFile]) -> dict[str, Path]:
    """Return the build's files by name, verified. Without a build, raises MissingError for that and all else that is missing."""
    record = load_any(project.record("build", line, target))
    remedy = f"kz build --line {line} --target {target}"
    if not record:
        more = (Missing(one.name, f"{one.path} is not there", one.remedy) for one in inputs if not one.there)
        raise MissingError((Missing(f"{target} of {line}", "it was not built", remedy), *more))
    folder = project.dist_folder(line, target)
    if path := changed(folder, record.outputs, lambda path: cached_sha256(project.store, path)):
        raise LockError(f"{path} is not what was built", hint=remedy)
    files = {Path(name).name: folder / name for name, f in record.outputs.items() if f.profile != "symbols"}
    if PROGRAM not in files:
        raise ConfigError(
            f"{target} builds no {PROGRAM}",
            hint="kz's docs/reference/verbs/device.md: a cmake project with `source: kz`",
        )
    return files


def _model(project: Project, request: TrialRequest, recipe: Recipe | None, use: Mapping[str, Any]) -> Path | None:
    if request.pte:
        if not request.pte.is_file():
            raise ConfigError(f"{request.pte} is not there")
        return request.pte.absolute()
    if recipe:
        return Path(export.plan(project, recipe.name).output)
    return project.root / use["model"] if use["model"] else None


def _inputs(project: Project, request: TrialRequest, recipe: Recipe | None, model: Path | None) -> list[InputFile]:
    files = {}
    if model:
        remedy = f"kz export {recipe.name}" if recipe else "another path"
        files[model.name] = InputFile(model, model.name, model.is_file(), remedy)
    if recipe:
        files |= {name: _filled(project, request, recipe, text, name) for text, name in recipe.device.items()}
    if request.tokenizer:
        name = f"tokenizer{request.tokenizer.suffix}"
        for other in [name for name in files if name.startswith("tokenizer")]:
            del files[other]
        files[name] = InputFile(request.tokenizer.absolute(), name, request.tokenizer.is_file(), "another path")
    return list(files.values())


def _filled(project: Project, request: TrialRequest, recipe: Recipe, text: str, name: str) -> InputFile:
    """Resolve a file that a recipe names by a folder in braces."""
    folders = {**export.own_placeholders(project, recipe), **request.folders}
    if request.qnn and request.qnn.is_dir():
        folders.setdefault(_SDK, request.qnn)
    unknown = [used for used in PLACEHOLDER.findall(text) if used not in folders]
    path = Path(PLACEHOLDER.sub(lambda m: str(folders.get(m[1], m[0])), text))
    if unknown:
        return InputFile(path, name, False, " ".join(f"--from {used}=FOLDER" for used in unknown))
    return InputFile(path, name, path.is_file(), f"kz export {recipe.name}, or --from for another folder")


def _of_words(count: int) -> str:
    """Return a prompt of so many words: the same text for every model."""
    return " ".join((_TEXT * (count // 20 + 1)).split()[:count])


def _rehearsal(project: Project, model: Path | None) -> Greedy | None:
    """Return what the host said with this very .pte, from the record of `kz export` beside it."""
    record = load_any(beside(model)) if model and model.is_file() else None
    if (
        not model
        or not record
        or "" not in record.outputs
        or not isinstance(decode := record.facts.get("decode"), dict)
    ):
        return None
    return greedy(decode) if record.outputs[""].sha256 == cached_sha256(project.store, model) else None


def _values(
    use: Mapping[str, Any],
    template: Chat,
    prompt: str,
    length: tuple[int, int],
    model: Path | None,
    inputs: Sequence[InputFile],
    pte: Pte | None,
    recipe: Recipe | None,
) -> dict[str, str]:
    """Return what the placeholders of a runner's command line stand for. `length`: tokens, and words of a long prompt."""
    contract = recipe.contract if recipe else None
    mode = (contract.runner if contract else "") or (pte.mode if pte else "")
    specs = [d.qnn for d in pte.delegates if d.qnn] if pte else []
    shared = (
        contract.shared_buffer
        if contract and contract.shared_buffer is not None
        else any(s.shared_buffer for s in specs)
    )
    tokens, words = length
    return {
        "model": model.name if model else "",
        "tokenizer": next((one.name for one in inputs if one.name.startswith("tokenizer")), ""),
        "prompt": prompt if use["template"] == "runner" else template.say(prompt),
        "tokens": str(tokens),
        "total": str(tokens + _TOKENS_A_WORD * words),
        "decoder": template.decoder,
        "eval_mode": _MODES.get(mode, ""),
        "shared_buffer": str(bool(shared)).lower(),
    }


def _argv(run: Sequence[str], values: Mapping[str, str], model: Path, pte: Pte | None) -> tuple[tuple[str, ...], str]:
    """Return the runner's command line, or () and why it cannot run."""
    if not run:
        return (), "this target builds no runner; --in-app runs a model in an app"
    needs = {
        "tokenizer": "--tokenizer FILE",
        "decoder": f"--chat {' or '.join(name for name in chats() if chat(name).decoder)}",
        "eval_mode": "a .pte with kv_forward: the runner of this target takes no other",
    }
    used = {name for word in run for name in PLACEHOLDER.findall(word)}
    if missing := [f"{name}: {remedy}" for name, remedy in needs.items() if name in used and not values[name]]:
        if pte is not None and not pte.mode and not values["eval_mode"] and "eval_mode" in used:
            return (
                (),
                f"the runner of this target runs QNN decoders, and {model.name} is not one; --in-app runs it in an app",
            )
        raise ConfigError("the runner of this target needs more:", hint="; ".join(missing))
    return tuple(PLACEHOLDER.sub(lambda m: values[m[1]], word) for word in run), ""


def _runtime(project: Project, request: TrialRequest) -> dict[str, Path]:
    """Return Qualcomm's libraries of --qnn, else of the user's SDK; {} without one."""
    if request.qnn:
        return qnn_runtime(request.qnn, project.store)
    line = request.line or project.pins.default
    sdk = installed(project, line, project.pins.source(_SDK)) if _SDK in project.pins.line(line) else None
    try:
        return qnn_runtime(sdk.folder, project.store) if sdk and sdk.folder.is_dir() else {}
    except ConfigError:
        return {}  # a copy of it with files for this machine only


def runtime_lacks(project: Project, line: str, name: str, recipe: str, soc: str, arch: str) -> tuple[Missing, ...]:
    """Return Qualcomm's libraries that a recipe's model needs on a device of this HTP arch and nothing provides, before a build.

    `soc`: what the build is for; '' for the target's.
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
    inputs = [InputFile(Path(), one, True, "") for one in wanted.device.values()]
    missing = push_set(arch, built, _runtime(project, TrialRequest(line=line, target=name)), inputs, qnn=True).missing
    remedy = f"QNN_SDK_ROOT with Qualcomm's SDK, or --target and --soc whose build has them for {arch}"
    return tuple(one._replace(remedy=remedy) if arch else one for one in missing)


def _is_qnn(dist: Mapping[str, object], pte: Pte | None, recipe: Recipe | None) -> bool:
    compiled = any(delegate.backend == QNN for delegate in pte.delegates) if pte else False
    return compiled or BACKEND in dist or bool(recipe and recipe.contract.htp_arch)
