"""What to tell a user whose system has run out of something."""

from __future__ import annotations

import errno


def advice(error: OSError) -> str:
    """What is missing, and what to do about it."""
    return f"{error.strerror or error}; {_cure(error)}"


def _cure(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS):
        return "close other files, or raise the limit (ulimit -n)"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return "free some space in the folder for temporary files, or name another (TMPDIR)"
    if error.errno in (errno.ENOMEM, errno.EAGAIN):
        return "end other processes, or free memory"
    return "see `latentloom doctor`"
