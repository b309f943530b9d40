# SPDX-License-Identifier: BSD-2-Clause
"""Declare the extension ``retsnoop_py._bpf``: libbpf, the transport reader, bulk parsers.

The C headers of this folder declare their own part between ``/* cdef begin */`` and
``/* cdef end */``, so each signature is written only once.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from cffi import FFI

HERE = Path(os.path.relpath(Path(__file__).resolve().parent))
sys.path.insert(0, str(HERE.parent.parent))
import build  # noqa: E402

HEADERS = (
    *("queue", "reader", "object", "attach", "probe_events", "guard", "facts"),
    *("fentry", "template", "stop", "repeat"),
)
SOURCES = (
    *("queue", "reader", "ring", "object", "attach", "probe_events", "expedite", "guard"),
    *("symtab", "ksyms", "symbols", "match", "btf"),
    *("fentry", "template", "stop", "repeat"),
)

LIBBPF = """
typedef uint32_t __u32;
typedef unsigned long long __u64;

struct bpf_object;
struct bpf_program;
struct bpf_map;
struct bpf_link;
struct btf;
struct bpf_insn;

int libbpf_probe_bpf_prog_type(int type, const void *opts);
int libbpf_probe_bpf_map_type(int type, const void *opts);
int libbpf_probe_bpf_helper(int prog_type, int helper, const void *opts);

struct bpf_object_open_opts {
    size_t sz; const char *object_name; const char *kconfig; ...;
};
struct bpf_object *bpf_object__open_mem(const void *image, size_t size,
                                        const struct bpf_object_open_opts *opts);
int bpf_object__load(struct bpf_object *obj);
void bpf_object__close(struct bpf_object *obj);
struct btf *bpf_object__btf(const struct bpf_object *obj);
struct bpf_program *bpf_object__find_program_by_name(const struct bpf_object *obj,
                                                     const char *name);
struct bpf_program *bpf_object__next_program(const struct bpf_object *obj,
                                             struct bpf_program *prev);
struct bpf_map *bpf_object__find_map_by_name(const struct bpf_object *obj, const char *name);

const void *btf__raw_data(const struct btf *btf, uint32_t *size);

const char *bpf_program__name(const struct bpf_program *prog);
const char *bpf_program__section_name(const struct bpf_program *prog);
const struct bpf_insn *bpf_program__insns(const struct bpf_program *prog);
size_t bpf_program__insn_cnt(const struct bpf_program *prog);
int bpf_program__fd(const struct bpf_program *prog);
int bpf_program__set_autoload(struct bpf_program *prog, bool autoload);
int bpf_program__set_type(struct bpf_program *prog, int type);
int bpf_program__set_expected_attach_type(struct bpf_program *prog, int type);
int bpf_program__set_attach_target(struct bpf_program *prog, int attach_prog_fd,
                                   const char *attach_func_name);
int bpf_program__type(const struct bpf_program *prog);
int bpf_program__set_log_buf(struct bpf_program *prog, char *log_buf, size_t log_size);
int bpf_program__set_log_level(struct bpf_program *prog, __u32 log_level);

struct bpf_kprobe_multi_opts {
    size_t sz;
    const unsigned long *addrs;
    const __u64 *cookies;
    size_t cnt;
    bool retprobe;
    bool session;
    ...;
};
struct bpf_link *bpf_program__attach_kprobe_multi_opts(const struct bpf_program *prog,
                                                       const char *pattern,
                                                       const struct bpf_kprobe_multi_opts *opts);
struct bpf_link *bpf_program__attach(const struct bpf_program *prog);
int bpf_link__destroy(struct bpf_link *link);
int bpf_link__fd(const struct bpf_link *link);
int bpf_iter_create(int link_fd);

struct bpf_map *bpf_object__next_map(const struct bpf_object *obj, const struct bpf_map *map);
const char *bpf_map__name(const struct bpf_map *map);
int bpf_map__type(const struct bpf_map *map);
__u32 bpf_map__map_flags(const struct bpf_map *map);
bool bpf_map__is_internal(const struct bpf_map *map);
int bpf_map__set_autocreate(struct bpf_map *map, bool autocreate);
int bpf_map__set_pin_path(struct bpf_map *map, const char *path);
int bpf_map__fd(const struct bpf_map *map);
int bpf_map__set_type(struct bpf_map *map, int type);
int bpf_map__set_max_entries(struct bpf_map *map, __u32 max_entries);
int bpf_map__set_key_size(struct bpf_map *map, __u32 size);
__u32 bpf_map__max_entries(const struct bpf_map *map);
__u32 bpf_map__key_size(const struct bpf_map *map);
__u32 bpf_map__value_size(const struct bpf_map *map);
int bpf_map__set_value_size(struct bpf_map *map, __u32 size);
struct bpf_link *bpf_map__attach_struct_ops(const struct bpf_map *map);
void *bpf_map__initial_value(const struct bpf_map *map, size_t *size);
int bpf_map_lookup_elem(int fd, const void *key, void *value);
int bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags);
int bpf_map_update_batch(int fd, const void *keys, const void *values, __u32 *count,
                         const void *opts);

"""


def declarations(header: Path) -> str:
    """The part of ``header`` that Python may call."""
    text = header.read_text()
    return "\n".join(re.findall(r"/\* cdef begin \*/(.*?)/\* cdef end \*/", text, re.DOTALL))


include_dirs, archive, libraries = build.libbpf_paths()

ffibuilder = FFI()
ffibuilder.cdef(LIBBPF + "".join(declarations(HERE / f"{name}.h") for name in HEADERS))
ffibuilder.set_source(
    "retsnoop_py._bpf",
    "#include <bpf/bpf.h>\n#include <bpf/btf.h>\n#include <bpf/libbpf.h>\n"
    + "".join(f'#include "{name}.h"\n' for name in HEADERS),
    sources=[str(HERE / f"{name}.c") for name in SOURCES],
    include_dirs=[str(HERE), *include_dirs],
    extra_objects=archive,
    libraries=libraries,
    extra_compile_args=["-O2", "-fvisibility=hidden", "-Wall", "-Werror=implicit"],
    extra_link_args=["-Wl,--exclude-libs,ALL"],
    py_limited_api=True,
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
)
