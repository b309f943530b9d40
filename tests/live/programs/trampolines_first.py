# SPDX-License-Identifier: BSD-2-Clause
"""The tool with fsession.multi at the top of the ladder: what that cannot take is for the next."""

from __future__ import annotations

import sys

from retsnoop_py.attach import plan
from retsnoop_py.cli.main import main
from retsnoop_py.mechanism import Mechanism

plan.LADDER = (Mechanism.FSESSION_MULTI, *plan.LADDER)  # type: ignore[misc]
sys.exit(main())
