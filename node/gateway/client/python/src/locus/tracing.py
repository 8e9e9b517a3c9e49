"""The trace of a call, as W3C trace context."""

from __future__ import annotations

import importlib
import sys
from typing import Dict, Optional

__all__ = ["trace_headers"]


def trace_headers(traceparent: Optional[str]) -> Dict[str, str]:
    """The headers for a trace: the one given, or else the current one of OpenTelemetry, if
    the program uses that."""
    if traceparent is not None:
        return {"traceparent": traceparent}
    if "opentelemetry.trace" not in sys.modules:
        return {}
    found: Dict[str, str] = {}
    context = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
    context.TraceContextTextMapPropagator().inject(found)
    return found
