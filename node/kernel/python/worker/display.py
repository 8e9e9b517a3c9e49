"""Rich representations of values and figures, sent to the node as events."""

import base64
import io
import sys

from .encoding import dumps
from .exceptions import message, type_name

MAX_ONE = 8 << 20

_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)
_PLAIN = frozenset(
    (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, type(None), type, range)
)


class Displays:
    """Sends displays, and adds notices about those that fail."""

    def __init__(self, emit, notice):
        self.emit = emit
        self.notice = notice

    def show(self, value, fallback=False):
        """Sends the rich representations of a value, and returns whether there were any.
        With fallback, sends its repr as plain text if there were none."""
        kind = type(value)
        if kind in _PLAIN or issubclass(kind, type):
            found = False
        else:
            found = self._figure(value) or self._rich(value)
        if not found and fallback:
            from_repr = repr(value)
            self._send("text/plain", from_repr)
        return found

    def _rich(self, value):
        bundle = self._call(value, "_repr_mimebundle_", dict(include=None, exclude=None))
        if isinstance(bundle, tuple) and bundle:
            bundle = bundle[0]
        sent = False
        if isinstance(bundle, dict):
            for mime, data in list(bundle.items())[:20]:
                if type(mime) is str and mime != "text/plain":
                    sent = self._send(mime, data) or sent
            if sent:
                return True
        for method, mime in _METHODS:
            data = self._call(value, method, {})
            if isinstance(data, tuple) and data:
                data = data[0]
            if data is not None:
                sent = self._send(mime, data) or sent
        return sent

    def _call(self, value, method, arguments):
        try:
            # Looked up on the class, since some objects have an attribute for every name.
            if getattr(type(value), method, None) is None:
                return None
            return getattr(value, method)(**arguments)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.notice(
                "display_failed",
                "%s of %s raised %s: %s" % (method, type_name(type(value)), type_name(type(error)), message(error)[:200]),
            )
            return None

    def _send(self, mime, data):
        try:
            if isinstance(data, (bytes, bytearray, memoryview)):
                data = base64.b64encode(data).decode("ascii")
            elif not isinstance(data, str):
                data = dumps(data)
            elif mime.startswith("image/") and mime != "image/svg+xml":
                data = data.replace("\n", "")
            data = data.encode("utf-8", "replace").decode("utf-8")
        except (ValueError, TypeError, RecursionError) as error:
            self.notice("display_failed", "data of type %s cannot be sent: %s" % (mime[:100], error))
            return False
        if len(data) > MAX_ONE:
            self.notice("display_dropped", "%s of %d bytes is over the limit of %d" % (mime[:100], len(data), MAX_ONE))
            return False
        self.emit({"kind": "display", "display": {"mime": mime[:100], "data": data}})
        return True

    def _figure(self, value):
        """Shows a value that is a matplotlib figure, and closes it so that
        show_open_figures does not show it again."""
        module = sys.modules.get("matplotlib.figure")
        figure = getattr(module, "Figure", None)
        if figure is None or not issubclass(type(value), figure):
            return False
        self._send_figure(value)
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close(value)
        return True

    def show_open_figures(self):
        """Shows and closes pyplot's open figures. Does not import matplotlib."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        try:
            for number in pyplot.get_fignums()[:20]:
                self._send_figure(pyplot.figure(number))
            pyplot.close("all")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.notice("display_failed", "figures cannot be shown: %s" % message(error)[:200])

    def _send_figure(self, figure):
        buffer = io.BytesIO()
        try:
            figure.savefig(buffer, format="png", bbox_inches="tight")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.notice("display_failed", "a figure cannot be drawn: %s" % message(error)[:200])
            return
        self._send("image/png", buffer.getvalue())
