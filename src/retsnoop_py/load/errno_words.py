# SPDX-License-Identifier: BSD-2-Clause
"""The strerror(3) text of each errno: glibc's, then musl's after a bar if different.

A log may come from a machine with another C library. musl's text for EOPNOTSUPP, "Not supported",
is omitted, because loaders write it for many other failures.
"""

from __future__ import annotations

__all__ = ["ERRNO_WORDS"]

_WORDS = """\
EPERM: Operation not permitted
ENOENT: No such file or directory
ESRCH: No such process
EINTR: Interrupted system call
EIO: Input/output error | I/O error
ENXIO: No such device or address
E2BIG: Argument list too long
ENOEXEC: Exec format error
EBADF: Bad file descriptor
ECHILD: No child processes | No child process
EAGAIN: Resource temporarily unavailable
ENOMEM: Cannot allocate memory | Out of memory
EACCES: Permission denied
EFAULT: Bad address
ENOTBLK: Block device required
EBUSY: Device or resource busy | Resource busy
EEXIST: File exists
EXDEV: Invalid cross-device link | Cross-device link
ENODEV: No such device
ENOTDIR: Not a directory
EISDIR: Is a directory
EINVAL: Invalid argument
ENFILE: Too many open files in system
EMFILE: Too many open files | No file descriptors available
ENOTTY: Inappropriate ioctl for device | Not a tty
ETXTBSY: Text file busy
EFBIG: File too large
ENOSPC: No space left on device
ESPIPE: Illegal seek | Invalid seek
EROFS: Read-only file system
EMLINK: Too many links
EPIPE: Broken pipe
EDOM: Numerical argument out of domain | Domain error
ERANGE: Numerical result out of range | Result not representable
EDEADLK: Resource deadlock avoided | Resource deadlock would occur
ENAMETOOLONG: File name too long | Filename too long
ENOLCK: No locks available
ENOSYS: Function not implemented
ENOTEMPTY: Directory not empty
ELOOP: Too many levels of symbolic links | Symbolic link loop
ENOMSG: No message of desired type
EIDRM: Identifier removed
ECHRNG: Channel number out of range
EL2NSYNC: Level 2 not synchronized
EL3HLT: Level 3 halted
EL3RST: Level 3 reset
ELNRNG: Link number out of range
EUNATCH: Protocol driver not attached
ENOCSI: No CSI structure available
EL2HLT: Level 2 halted
EBADE: Invalid exchange
EBADR: Invalid request descriptor
EXFULL: Exchange full
ENOANO: No anode
EBADRQC: Invalid request code
EBADSLT: Invalid slot
EBFONT: Bad font file format
ENOSTR: Device not a stream
ENODATA: No data available
ETIME: Timer expired | Device timeout
ENOSR: Out of streams resources
ENONET: Machine is not on the network
ENOPKG: Package not installed
EREMOTE: Object is remote
ENOLINK: Link has been severed
EADV: Advertise error
ESRMNT: Srmount error
ECOMM: Communication error on send
EPROTO: Protocol error
EMULTIHOP: Multihop attempted
EDOTDOT: RFS specific error
EBADMSG: Bad message
EOVERFLOW: Value too large for defined data type | Value too large for data type
ENOTUNIQ: Name not unique on network
EBADFD: File descriptor in bad state
EREMCHG: Remote address changed
ELIBACC: Can not access a needed shared library
ELIBBAD: Accessing a corrupted shared library
ELIBSCN: .lib section in a.out corrupted
ELIBMAX: Attempting to link in too many shared libraries
ELIBEXEC: Cannot exec a shared library directly
EILSEQ: Invalid or incomplete multibyte or wide character | Illegal byte sequence
ERESTART: Interrupted system call should be restarted
ESTRPIPE: Streams pipe error
EUSERS: Too many users
ENOTSOCK: Socket operation on non-socket | Not a socket
EDESTADDRREQ: Destination address required
EMSGSIZE: Message too long | Message too large
EPROTOTYPE: Protocol wrong type for socket
ENOPROTOOPT: Protocol not available
EPROTONOSUPPORT: Protocol not supported
ESOCKTNOSUPPORT: Socket type not supported
EOPNOTSUPP: Operation not supported
EPFNOSUPPORT: Protocol family not supported
EAFNOSUPPORT: Address family not supported by protocol
EADDRINUSE: Address already in use | Address in use
EADDRNOTAVAIL: Cannot assign requested address | Address not available
ENETDOWN: Network is down
ENETUNREACH: Network is unreachable | Network unreachable
ENETRESET: Network dropped connection on reset | Connection reset by network
ECONNABORTED: Software caused connection abort | Connection aborted
ECONNRESET: Connection reset by peer
ENOBUFS: No buffer space available
EISCONN: Transport endpoint is already connected | Socket is connected
ENOTCONN: Transport endpoint is not connected | Socket not connected
ESHUTDOWN: Cannot send after transport endpoint shutdown | Cannot send after socket shutdown
ETOOMANYREFS: Too many references: cannot splice
ETIMEDOUT: Connection timed out | Operation timed out
ECONNREFUSED: Connection refused
EHOSTDOWN: Host is down
EHOSTUNREACH: No route to host | Host is unreachable
EALREADY: Operation already in progress
EINPROGRESS: Operation now in progress | Operation in progress
ESTALE: Stale file handle
EUCLEAN: Structure needs cleaning
ENOTNAM: Not a XENIX named type file
ENAVAIL: No XENIX semaphores available
EISNAM: Is a named type file
EREMOTEIO: Remote I/O error
EDQUOT: Disk quota exceeded | Quota exceeded
ENOMEDIUM: No medium found
EMEDIUMTYPE: Wrong medium type
ECANCELED: Operation canceled
ENOKEY: Required key not available
EKEYEXPIRED: Key has expired
EKEYREVOKED: Key has been revoked
EKEYREJECTED: Key was rejected by service
EOWNERDEAD: Owner died | Previous owner died
ENOTRECOVERABLE: State not recoverable
ERFKILL: Operation not possible due to RF-kill
"""
ERRNO_WORDS = {
    words.lower(): name
    for name, _, said in (line.partition(": ") for line in _WORDS.splitlines())
    for words in said.split(" | ")
}
"""The name of an errno by its words, in lower case."""
