# SPDX-License-Identifier: BSD-2-Clause
"""``--pinpoint``: the line of each failing chain, without naming a function.

Once a chain has failed, its innermost function is followed block by block. Its next failure then
shows the deciding condition. A continuous run waits for that failure; a command is run again.
"""

from __future__ import annotations

from collections.abc import Sequence

from retsnoop_py.attach.plan import AttachContext
from retsnoop_py.capture.paths import PathProbes
from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.paths import Path
from retsnoop_py.session.results import error_of

__all__ = ["Pinpoint"]

#: The functions of a failing chain, by their ids, outermost first.
_Chain = tuple[int, ...]


class Pinpoint:
    """The failing chains so far, and the chains without a known condition.

    ``said`` contains messages about functions that cannot be followed. The reader clears it.
    """

    def __init__(
        self,
        functions: Sequence[Function],
        paths: PathProbes,
        context: AttachContext,
        max_blocks: int,
        *,
        every: bool = False,
    ) -> None:
        self._functions = functions
        self._paths = paths
        self._context = context
        self._max_blocks = max_blocks
        self._every = every
        #: Chains that have shown their condition, or cannot show it; and the conditions, by
        #: address.
        self._settled: set[_Chain] = set()
        self._shown: set[tuple[_Chain, int]] = set()
        self._waiting: dict[_Chain, int] = {}
        self._tried: set[int] = set()
        #: If True, show only sessions with a new condition.
        self.only_news = False
        self.said: list[str] = []

    def see(self, session: Session) -> bool:
        """Record the failing chain of a session; return True if the session is to be shown."""
        chain = self._chain(session)
        path = session.paths.get(session.calls[len(chain) - 1].seq) if chain else None
        if path is not None:
            self._waiting.pop(chain, None)
            self._settled.add(chain)
            key = chain, self._condition(path)
            is_new = key not in self._shown
            self._shown.add(key)
            return is_new or self._every or not self.only_news
        if chain and chain not in self._settled:
            self._waiting[chain] = chain[-1]
        return not self.only_news

    def _condition(self, path: Path) -> int:
        """Return the address of the condition or of the return; 0 if both are unknown."""
        origin = self._paths.origin(path)
        place = (origin.decided or origin.returned) if origin is not None else None
        return place.address if place is not None else 0

    def _chain(self, session: Session) -> _Chain:
        """Return the chain of calls down to the innermost failed call."""
        if session.kind is not SessionKind.FINAL:
            return ()
        found = 0
        for number, call in enumerate(session.calls, 1):
            if call.finished and not call.interrupt:
                function = self._functions[call.func_id]
                if error_of(function, call.result) is not None:
                    found = number
        return tuple([call.func_id for call in session.calls[:found]])

    @property
    def is_waiting(self) -> bool:
        """True if there are chains for which the next failure will show more."""
        return bool(self._waiting)

    def follow(self) -> None:
        """Attach to the functions that have failed since the last call of this method."""
        new = [number for number in dict.fromkeys(self._waiting.values()) if self._is_new(number)]
        for number in new:
            self._tried.add(number)
            if self._context.stopping():
                return
            try:
                self._paths.read([number], self._max_blocks)
                self._paths.attach(self._context)
            except UnavailableError as error:
                self._paths.said.append(f"{self._functions[number].label}: {error.message}")
        for number in new:
            if not self._paths.follows(number):
                self._give_up(number)
        self.said += self._paths.said
        self._paths.said.clear()

    def _is_new(self, number: int) -> bool:
        return number not in self._tried and not self._paths.follows(number)

    def _give_up(self, number: int) -> None:
        for chain in [one for one, inner in self._waiting.items() if inner == number]:
            del self._waiting[chain]
            self._settled.add(chain)
