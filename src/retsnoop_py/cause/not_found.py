# SPDX-License-Identifier: BSD-2-Clause
"""Reasons in a path: the part that is missing, too long, or leads in a circle."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePath

from msgspec import Struct

from retsnoop_py.caller_environment import path_of_caller
from retsnoop_py.cause import files
from retsnoop_py.cause.events import SystemCall
from retsnoop_py.cause.operation import object_of, opens_to_create, path_of, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.cause.tables import read_table
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.text import close_names
from retsnoop_py.value import replace

__all__ = [
    "advice_of_place",
    "interpreter",
    "interpreter_reason",
    "is_no_directory",
    "is_no_link",
    "long_host_name",
    "loop",
    "missing",
    "no_current_folder",
    "not_in_folders",
    "places",
    "searched",
    "special",
    "too_long",
]

#: Folders of programs that PATH often lacks, as after su without the option -.
_UNSEARCHED = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/games", "/snap/bin")
#: Folders of a search that are named.
_MOST_FOLDERS = 8
#: Characters of a host name (__NEW_UTS_LEN).
_HOST_NAME = 64
#: Calls that make what their path names, or change it to that name.
_MAKE = ("mkdir", "mknod", "symlink", "link", "rename", "creat", "bind", "mount", "move_mount")
#: Characters of a path that is too long.
_SHOWN = 40


def not_in_folders(name: str, folders: Sequence[str]) -> Reason:
    """Return the reason that none of these folders has a program called ``name``."""
    listed = ", ".join(map(show, folders))
    return Reason(
        "not-found", f"{show(name)} is in none of the folders {listed}.", tuple(_how_to_get(name))
    )


def searched(scene: Scene) -> Reason | None:
    """The program searched the same name in several folders and did not find it."""
    call = scene.call
    name = PurePath(object_of(call)).name
    if not name:
        return None
    calls = [one for one in scene.witnessed.calls if one.pid == call.pid]
    if not call.name.startswith("execve") and ".so" not in name:
        # other programs look for files of a name for other reasons as well
        calls = _last_search(calls, name)
    folders: dict[str, None] = {}
    for one in calls:
        path = path_of(one)
        if one.error == call.error and path:
            folder, last = os.path.split(path)
            if last == name:
                folders[folder] = None
    if len(folders) < 2:
        return None
    # the loader also asks for folders that hardly any system has
    there = [one for one in folders if os.path.isdir(one)] or list(folders)
    listed = ", ".join(map(show, there[:_MOST_FOLDERS]))
    listed += ", ..." if len(there) > _MOST_FOLDERS else ""
    if ".so" in name:
        return Reason(
            "not-found",
            f"The loader did not find the shared library {name}. It looked in {listed}.",
            (
                f"install the package that contains {name}",
                "or add its folder: LD_LIBRARY_PATH=FOLDER",
            ),
            is_seen_later=False,
        )
    if call.name.startswith("execve") and " " in name:
        return _words_as_one(name)
    return replace(not_in_folders(name, there[:_MOST_FOLDERS]), is_seen_later=False)


def _last_search(calls: Sequence[SystemCall], name: str) -> list[SystemCall]:
    """Return the last failed calls for a name, without a failure of another name between them."""
    found: list[SystemCall] = []
    for one in reversed(calls):
        path = path_of(one)
        if path and os.path.basename(path) == name:
            found.insert(0, one)
        elif found:
            break
    return found


def _words_as_one(name: str) -> Reason:
    """No program has a name with blanks; the kernel passes the rest of a #! line as one word."""
    return Reason(
        "not-found",
        f"A program with the name {show(name)}, of several words, was looked for and does not "
        "exist. A first line such as #!/usr/bin/env PROGRAM ARGUMENT passes all words after env as "
        "one.",
        (
            "of a script: write -S behind env there: #!/usr/bin/env -S PROGRAM ARGUMENT",
            "of a command line: separate the words, without quotes",
        ),
        is_seen_later=False,
        is_inferred=True,
    )


def _how_to_get(name: str) -> Iterator[str]:
    names: set[str] = set()
    searched = (path_of_caller() or "").split(":")
    for folder in _UNSEARCHED:
        if folder not in searched and os.access(os.path.join(folder, name), os.X_OK):
            yield (
                f"give the path {shell_path(os.path.join(folder, name))}, or search there: "
                f"PATH=$PATH:{folder}"
            )
            return
    for folder in searched:
        try:
            names.update(os.listdir(folder or "."))
        except OSError:
            continue
    alike = close_names(name, sorted(names), 2, files.LIKENESS, files.COMPARED)
    if alike:
        yield (
            f"check the spelling: {' and '.join(alike)} exists"
            if len(alike) == 1
            else f"check the spelling: {' and '.join(alike)} exist"
        )
    yield f"install the package that contains {name}, or give the full path"


def interpreter(scene: Scene) -> Reason | None:
    """A program is there, and what should run it is not."""
    path = scene.path
    if path is None or not Path(path).is_file():
        return None
    return interpreter_reason(path, scene.call.root or "")


def interpreter_reason(path: str, root: str = "") -> Reason | None:
    """Why the file at ``path`` cannot be run although it is there; None if that is not why.

    ``root`` is the root directory of the process, "" for ours.
    """
    found = files.interpreter_of(path)
    if found is None:
        return None
    kind, interpreter = found
    if kind == "script":
        from shutil import which  # few answers need it, and all would wait for its import

        plain = interpreter.rstrip("\r")
        if plain != interpreter and which(plain):
            return Reason(
                "not-found",
                f"The first line of {show(path)} ends with a carriage return (a Windows line "
                f"ending). The kernel therefore looks for the interpreter {plain}\\r.",
                (f"sed -i 's/\\r$//' {shell_path(path)}",),
            )
        if os.path.exists(root + interpreter):
            return None
        advice = [f"install the interpreter {show(PurePath(plain).name)}"]
        other = which(PurePath(plain).name)
        if other:
            advice = [f"change its first line to #!{other}, which exists"]
        return Reason(
            "not-found",
            f"The first line of {show(path)} is #!{plain}, and the interpreter {show(plain)} "
            "does not exist.",
            (*advice, f"or run it with another interpreter: INTERPRETER {shell_path(path)}"),
        )
    if os.path.exists(root + interpreter):
        return None
    if root:
        listed = f"the loader and the libraries that ldd {shell_path(path)} lists"
        return Reason(
            "not-found",
            f"The program {show(path)} needs the loader {interpreter}, which does not exist in the "
            f"root directory of the process, {show(root)}.",
            (f"copy {listed} into {shell_path(root)}",),
        )
    return Reason(
        "not-found",
        f"The program {show(path)} needs the loader {interpreter}, which does not exist. The "
        "program was built for another architecture or another C library.",
        ("install the C library it was built for, or get a build for this system",),
    )


def no_current_folder(scene: Scene) -> Reason | None:
    """The path is relative to a current directory that was removed."""
    call = scene.call
    paths = [text for _, text in call.texts if text]
    is_relative = bool(paths) and not paths[0].startswith("/") and call.place(0) is None
    if not call.has_removed_cwd or not (is_relative or call.name == "getcwd"):
        return None
    return Reason(
        "not-found",
        "The current directory of the process was removed, also if a directory with its name "
        "exists again.",
        ('change to a directory that exists: cd "$PWD", or cd /',),
        is_seen_later=False,
    )


def missing(scene: Scene) -> Reason | None:
    """A part of the path is not there."""
    paths = [scene.path, scene.target]
    if scene.call.name == "mount":
        # the source of a file system without a device is any word
        is_path = (scene.call.text(0) or "").startswith("/")
        paths = [path_of(scene.call, 1), scene.path if is_path else None]
    for path in dict.fromkeys(paths):
        reason = _missing_of(scene, path) if path else None
        if reason is not None:
            return reason
    return None


class _Place(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of ``places.toml``; its head explains the fields."""

    path: str
    text: str
    advice: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    without: str = ""


class _Places(Struct, frozen=True, forbid_unknown_fields=True):
    place: tuple[_Place, ...]


@lru_cache(1)
def places() -> tuple[_Place, ...]:
    """The rows of ``places.toml``."""
    return read_table("places.toml", _Places).place


def advice_of_place(path: str) -> tuple[str, ...]:
    """Return the advice of ``places.toml`` for a socket of a known service; () for other paths."""
    for row in places():
        if fnmatchcase(path, row.path) and not any(fnmatchcase(path, one) for one in row.but):
            return tuple(one for one in row.advice if "{" not in one)
    return ()


def special(scene: Scene) -> Reason | None:
    """Return the reason for a missing path that has a special meaning.

    The kernel returns EACCES to a program that creates a file among its own files.
    """
    path = scene.path
    found = files.missing_part(path) if path else None
    if path is None or found is None or found[1] is not None:
        return None
    if errno_name(scene.call.error) != "ENOENT" and not (
        _makes(scene) and files.is_of_kernel(path)
    ):
        return None
    alike = files.near(found[0])
    spelled = [f"check the spelling: {show(alike)} exists"] if alike else []
    for row in places():
        if not fnmatchcase(path, row.path) or any(fnmatchcase(path, one) for one in row.but):
            continue
        if row.without and os.path.exists(row.without):
            continue
        fixed = re.split(r"[*\[]", row.path)[0]
        name = path[len(fixed) :].partition("/")[0]
        if "{name}" in row.text and len(found[0]) > len(fixed + name):
            continue  # the thing is there, and something inside of it is not
        fields = {"name": shell_word(name), "path": show(path)}
        advice = (one.format(**fields) for one in row.advice)
        return Reason("not-found", row.text.format(**fields), (*spelled, *advice))
    return None


def _missing_of(scene: Scene, path: str) -> Reason | None:
    found = files.missing_part(path)
    if found is None:
        return None
    part, link = found
    if link is not None:
        return Reason(
            "not-found",
            f"{show(link)} is a symbolic link to {show(part)}, which does not exist.",
            (f"make the link point elsewhere: ln -sfn TARGET {shell_path(link)}",),
        )
    alike = files.near(part)
    spelled = [f"check the spelling: {show(alike)} exists"] if alike else []
    folder = os.path.dirname(part)
    if scene.call.name == "connect":
        return Reason(
            "not-found",
            f"The socket {show(path)} does not exist: the service that creates it does not run, or "
            "creates it elsewhere.",
            (*spelled, "start the service, or give the path of its socket"),
        )
    if part == path:
        text = f"{show(part)} does not exist. The directory {show(folder)} does."
    else:
        text = f"The directory {show(part)} does not exist."
    advice = spelled
    root = scene.call.root
    if root and path.startswith(root):
        text += f" The root directory of the process was {show(root)}."
        if scene.call.name.startswith("execve"):
            advice.append(
                "copy the program and its libraries there, or give another root directory"
            )
    elif part != path and _makes(scene) and not files.is_of_kernel(folder):
        word = "or " if advice else ""
        advice.append(f"{word}create it: mkdir -p {shell_path(os.path.dirname(path))}")
    elif scene.call.name == "mount" and path == path_of(scene.call, 1):
        advice.append(f"{'or ' if advice else ''}create it: mkdir {shell_path(path)}")
    return Reason("not-found", text, tuple(advice))


def _makes(scene: Scene) -> bool:
    """Return whether the call creates a file there, so a missing folder should be created."""
    return opens_to_create(scene.call) or scene.call.name.startswith(_MAKE)


def is_no_directory(scene: Scene) -> Reason | None:
    """A part of the path is not a directory."""
    path = scene.path
    part = files.not_a_directory(path) if path else None
    if part is None:
        return None
    try:
        kind = files.kind_of(Path(part).stat())
    except OSError:
        return None
    advice = ("give the name of a directory",)
    if part != path:
        advice = (f"check the path: nothing can be below the {kind} {show(part)}",)
    return Reason("not-a-directory", f"{show(part)} is a {kind}, not a directory.", advice)


def loop(scene: Scene) -> Reason | None:
    """A symbolic link leads back to itself, or must not be followed."""
    path = scene.path
    if path is None:
        return None
    for part in files.parts_of(path):
        if not os.path.islink(part):
            continue
        target = os.readlink(part)
        if not os.path.exists(part):
            text = f"The symbolic link {show(part)} leads in a circle: it points to {show(target)}."
            return Reason("loop", text, (f"ln -sfn TARGET {shell_path(part)}",))
        if part == path:
            text = (
                f"{show(part)} is a symbolic link to {show(target)}, and the program refuses to "
                "follow symbolic links there (O_NOFOLLOW)."
            )
            # /proc/self of retsnoop-py is another process than that of the command
            real = os.path.realpath(path).replace(f"/proc/{os.getpid()}/", "/proc/self/")
            return Reason("loop", text, (f"give the real path: {show(real)}",))
    return None


def is_no_link(scene: Scene) -> Reason | None:
    """readlink(2) of a file that is not a symbolic link."""
    path = scene.path
    if path is None or not os.path.exists(path) or os.path.islink(path):
        return None
    return Reason("not-a-link", f"{show(path)} is not a symbolic link.")


def too_long(scene: Scene) -> Reason | None:
    """A name or the whole path is too long. Only the start of a long path was captured."""
    path = next((text for _, text in scene.call.texts if text), None)
    if path is None:
        return None
    start = f"{path[:_SHOWN]}..." if len(path) > _SHOWN else path
    return Reason(
        "too-long",
        f"The path {show(start)} has a name that is longer than 255 bytes, or is longer than 4095 "
        "bytes as a whole.",
        ("choose shorter names",),
        is_seen_later=False,
    )


def long_host_name(scene: Scene) -> Reason | None:
    """sethostname(2): the name is longer than the kernel keeps."""
    length = scene.call.arguments[1]
    if length <= _HOST_NAME:
        return None
    return Reason(
        "too-long",
        f"The name has {length} characters. A host name has at most {_HOST_NAME}.",
        ("choose a shorter name",),
        is_seen_later=False,
    )
