"""The trace that a call is a part of, as the W3C's trace context."""

from __future__ import annotations

import importlib
import sys
from typing import Dict, Optional

__all__ = ["trace_headers"]


def trace_headers(traceparent: Optional[str]) -> Dict[str, str]:
    """The headers that name a trace: the one given, else the one that OpenTelemetry, where
    the program uses it, is in here and now."""
    if traceparent is not None:
        return {"traceparent": traceparent}
    if "opentelemetry.trace" not in sys.modules:
        return {}
    found: Dict[str, str] = {}
    context = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
    context.TraceContextTextMapPropagator().inject(found)
    return found
