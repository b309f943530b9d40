# SPDX-License-Identifier: BSD-2-Clause
"""What this kernel, user and CPU can do: questions, answers, reasons, next steps.

Each module asks about one subject. A question is a pure function of a :class:`model.Host`: the
files below its root and what ``tries`` found by trying on the running kernel.
"""
