# SPDX-License-Identifier: BSD-2-Clause
"""What BTF does not tell: from the file that is shipped, and from the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.arguments.semantics import USER_FILE, Semantics, load_semantics
from retsnoop_py.package import user_file


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = user_file(USER_FILE)
    path.parent.mkdir()
    return path


def variant(semantics: Semantics, owner: str, function: str) -> str | None:
    return semantics.rules(owner)[0].variant_in(function)


@pytest.mark.parametrize(
    ("function", "command"),
    [
        ("map_create", "BPF_MAP_CREATE"),
        ("array_map_alloc_check", "BPF_MAP_CREATE"),
        ("generic_map_lookup_batch", "BPF_MAP_LOOKUP_BATCH"),
        ("bpf_lsm_bpf_prog_load", "BPF_PROG_LOAD"),
        ("tcx_link_attach", "BPF_LINK_CREATE"),
        ("bpf_prog_get_info_by_fd", "BPF_OBJ_GET_INFO_BY_FD"),
        ("bpf_mprog_query", "BPF_PROG_QUERY"),
        ("some_other", None),
    ],
)
def test_functions_tell_which_command_they_are_of(
    config: Path, function: str, command: str | None
) -> None:
    del config
    assert variant(load_semantics(), "bpf_attr", function) == command


def test_what_the_user_says_comes_before_what_is_shipped(config: Path) -> None:
    shipped = load_semantics()
    config.write_text(
        """
        [enums]
        my_enum = ["bpf_attr.map_type", "my_ioctl(cmd)"]
        [constants.my_enum]
        MINE = 1
        [[unions]]
        of = ["bpf_attr", "mine.inner"]
        tag = "kind"
        variants = { 1 = ["a", "b.c"], 2 = "struct other" }
        [sentinels]
        "inode.i_acl" = { NONE_OF_MINE = -1 }
        "task_struct.parent" = { ORPHAN = -1 }
        [unfollowed]
        "being freed" = ["my_free(object)", "security_file_alloc(file)"]
        """
    )
    got = load_semantics()
    assert dict(got.members("bpf_attr"))["map_type"] == "my_enum"
    assert dict(got.members("bpf_attr"))["prog_type"] == "bpf_prog_type"
    assert got.enum_of("my_ioctl", "cmd") == "my_enum"
    assert got.enum_of("__sys_bpf", "cmd") == shipped.enum_of("__sys_bpf", "cmd") == "bpf_cmd"
    assert [one.rule.tag for one in got.rules("bpf_attr")[:2]] == ["kind", "(cmd)"]
    assert [one.path for one in got.rules("mine")] == ["inner"]
    assert dict(got.members("task_struct")) == {"parent": "task_struct.parent"}
    assert got.constants("inode.i_acl") == {"NONE_OF_MINE": -1}
    assert got.constants("inode.i_default_acl") == {"ACL_NOT_CACHED": -1, "ACL_DONT_CACHE": -3}
    assert got.note_of("my_free", "object") == "being freed"
    assert got.note_of("security_file_alloc", "file") == "being freed"
    assert got.note_of("bpf_lsm_file_alloc_security", "file") == "not initialised yet"
    assert got.note_of("fput", "file") is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[unions]\n", "Expected ']]'"),
        ("[unknown]\n", "unknown field `unknown`"),
        ('[[unions]]\nof = "a"\ntag = 3\nvariants = {}\n', "unions[0].tag: Expected `str`"),
        ('[[unions]]\nof = "a"\nvariants = {}\n', "unions[0]: Object missing required field `tag`"),
        (
            '[[unions]]\nof = "a"\ntag = "t"\nvariants = { 1 = "x" }\n',
            "unions[0].variants.1: 'x' is not a list of members or 'struct NAME'",
        ),
        (
            '[[unions]]\nof = "a"\ntag = "f(x)"\nvariants = {}\n',
            "unions[0].tag: 'f(x)' is not a member or (ARGUMENT)",
        ),
        ('[enums]\nbpf_cmd = ["cmd"]\n', "enums.bpf_cmd: 'cmd' is not TYPE.MEMBER"),
        ('[enums]\nbpf_cmd = ["(cmd)"]\n', "enums.bpf_cmd: '(cmd)' is not FUNCTION(ARGUMENT)"),
        ("[constants.x]\nA = 1.5\n", "constants"),
        ('[sentinels]\n"inode" = { A = 1 }\n', "sentinels: 'inode' is not TYPE.MEMBER"),
        ('[unfollowed]\nwhy = ["f"]\n', "unfollowed.\"why\": 'f' is not FUNCTION(ARGUMENT)"),
    ],
)
def test_a_wrong_file_is_one_message_that_names_the_file_and_the_entry(
    config: Path, text: str, what: str
) -> None:
    config.write_text(text)
    with pytest.raises(DataError) as raised:
        load_semantics()
    assert raised.value.message.startswith(f"{config}: ")
    assert what in raised.value.message
    assert "\n" not in raised.value.message
    assert raised.value.exit_status == 65


def test_a_file_that_cannot_be_read_is_told(config: Path) -> None:
    config.mkdir()
    with pytest.raises(DataError, match="Is a directory"):
        load_semantics()
    config.rmdir()
    config.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"arguments.toml: .*decode"):
        load_semantics()
