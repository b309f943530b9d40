# SPDX-License-Identifier: BSD-2-Clause
"""Error numbers by name, including the kernel's internal errors.

The numbers are those of the kernel's ``asm-generic/errno.h`` and ``linux/errno.h``, which x86,
arm64, riscv, s390 and powerpc share. Python's own table lacks the internal errors, and does not
show which of two names of a number is the usual one.
"""

from __future__ import annotations

from retsnoop_py.errors import UsageError

__all__ = ["ERRNO_NAMES", "MAX_ERRNO", "by_name", "errno_name", "error_name"]

#: From include/linux/err.h: the largest errno in an error pointer or an error number.
MAX_ERRNO = 4095

#: From 1 on; ``-`` marks aliases of another number (41 EWOULDBLOCK, 58 EDEADLOCK).
_FROM_1 = """
EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD
EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR
EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS
EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP
- ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI
EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR
ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM
EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD
ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE
EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT
EADDRINUSE EADDRNOTAVAIL ENETDOWN
ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS
ETIMEDOUT
ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM
EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED
EOWNERDEAD
ENOTRECOVERABLE ERFKILL EHWPOISON
"""

#: From 512 on: these errors never reach user space. 520 is not used.
_FROM_512 = """
ERESTARTSYS ERESTARTNOINTR ERESTARTNOHAND ENOIOCTLCMD ERESTART_RESTARTBLOCK EPROBE_DEFER
EOPENSTALE ENOPARAM - EBADHANDLE ENOTSYNC EBADCOOKIE ENOTSUPP ETOOSMALL ESERVERFAULT EBADTYPE
EJUKEBOX EIOCBQUEUED ERECALLCONFLICT
"""

#: Positive number to name. 0, a NULL instead of a pointer, is not included.
ERRNO_NAMES: dict[int, str] = {
    first + index: name
    for first, names in ((1, _FROM_1), (512, _FROM_512))
    for index, name in enumerate(names.split())
    if name != "-"
}


def errno_name(number: int) -> str:
    """Return a name such as ``EINVAL``, or the number if the kernel has no name for it."""
    return ERRNO_NAMES.get(number, str(number))


def error_name(error: int) -> str:
    """Return the name of an error that :func:`by_name` can read: 0 is ``NULL``."""
    return errno_name(error) if error else "NULL"


def by_name(name: str) -> int:
    """Return the number for ``EINVAL`` or ``-EINVAL``; 0 for ``NULL``.

    Raise :class:`UsageError` for other texts.
    """
    bare = name.removeprefix("-")
    if bare == "NULL":
        return 0
    for number, known in ERRNO_NAMES.items():
        if known == bare:
            return number
    from retsnoop_py.text import did_you_mean, near_names

    near = near_names(bare.upper(), [*ERRNO_NAMES.values(), "NULL"])
    hint = did_you_mean(near) or "give a name such as ENOMEM, or NULL"
    raise UsageError(f"unknown error name '{name}'", hint)
