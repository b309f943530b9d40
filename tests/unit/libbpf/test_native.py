# SPDX-License-Identifier: BSD-2-Clause
"""The C parts where a damaged buffer or a failing call cannot be had from the kernel at will."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_NATIVE = Path(__file__).parents[3] / "src/native"

#: A ring of one page whose second record claims to be longer than what was produced.
_RING = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include "ring.h"

static void take(void *ctx, const struct ring_record *record)
{
	*(size_t *)ctx += record->first_size + record->rest_size;
}

int main(void)
{
	size_t page = getpagesize(), taken = 0;
	int fd = memfd_create("ring", 0), result;
	struct ring ring = { 0 };
	char *all;

	if (ftruncate(fd, 3 * page))
		return 1;
	all = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring_open(&ring, fd, page))
		return 2;
	*(uint32_t *)(all + 2 * page) = 24;
	*(uint32_t *)(all + 2 * page + 32) = 1000; /* only 16 bytes were produced for it */
	*(unsigned long *)(all + page) = 32 + 16;
	result = ring_consume(&ring, take, &taken);
	printf("%zu %d %lu\n", taken, result == -EBADMSG, *ring.consumed);
	*(uint32_t *)(all + 2 * page + 48) = 8;
	*(unsigned long *)(all + page) = 48 + 16;
	result = ring_consume(&ring, take, &taken);
	printf("%zu %d %lu\n", taken, result, *ring.consumed);
	return 0;
}
"""

#: flock(2) that gives no shared lock, as a file system without locks does.
_FLOCK = r"""
#include <errno.h>
#include <sys/file.h>

int flock(int fd, int operation)
{
	errno = ENOLCK;
	return operation & LOCK_SH ? -1 : 0;
}
"""


def _compile(source: str, target: Path, *arguments: str) -> Path:
    file = target.with_suffix(".c")
    file.write_text(source)
    words = ["gcc", "-Wall", "-Werror", f"-I{_NATIVE}", "-o", str(target), str(file), *arguments]
    subprocess.run(words, check=True)
    return target


def test_a_record_that_reaches_beyond_the_end_is_not_read(tmp_path: Path) -> None:
    program = _compile(_RING, tmp_path / "ring", str(_NATIVE / "ring.c"))
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    # 24 bytes of the whole record; what follows the damaged one is read again
    assert done.stdout == "24 1 48\n32 0 64\n"


def test_rcu_is_not_hurried_without_the_lock(tmp_path: Path) -> None:
    shim = _compile(_FLOCK, tmp_path / "flock.so", "-shared", "-fPIC")
    code = (
        "import errno, sys; from pathlib import Path; from retsnoop_py.libbpf import process; "
        "print(errno.errorcode.get(-process.expedite_begin(Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "home")],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "ENOLCK\n"
