"""Limits the frames of a traceback and says what was left out."""

import itertools
import traceback

MAX_FRAMES = 60
MAX_REPEATS = 3  # as many as Python shows of a line that calls itself


def cut(frames):
    """Returns the frames to show, and remarks by the index of the frame that they follow."""
    kept = []  # pairs of a frame and how many repeats of its line were left out after it
    for _, run in itertools.groupby(frames, _line):
        run = list(run)
        kept += [(frame, 0) for frame in run[:MAX_REPEATS]]
        if len(run) > MAX_REPEATS:
            kept[-1] = kept[-1][0], len(run) - MAX_REPEATS
    half, between = MAX_FRAMES // 2, 0
    if len(kept) > MAX_FRAMES:
        between = sum(1 + repeats for _, repeats in kept[half:-half])
        kept[half:-half] = []
    remarks = {
        at: "  [Previous line repeated %d more time%s]\n" % (repeats, "s" if repeats > 1 else "")
        for at, (_, repeats) in enumerate(kept) if repeats
    }
    if between:
        remarks[half - 1] = remarks.get(half - 1, "") + "  ... %d frames cut ...\n" % between
    return [frame for frame, _ in kept], remarks


def _line(frame):
    code = frame.tb_frame.f_code
    return code.co_filename, frame.tb_lineno, code.co_name


class Told(traceback.StackSummary):
    """A stack with remarks between its frames."""

    remarks = {}

    def format(self, **options):
        lines, done = [], 0
        for at in sorted(self.remarks):
            lines += traceback.StackSummary(self[done:at + 1]).format(**options)
            lines.append(self.remarks[at])
            done = at + 1
        return lines + traceback.StackSummary(self[done:]).format(**options)


def tell(stack, remarks):
    """Adds remarks to a stack, unless it is too short to be the one they were made for."""
    if not remarks or len(stack) <= max(remarks):
        return stack
    told = Told(stack)
    told.remarks = remarks
    return told
