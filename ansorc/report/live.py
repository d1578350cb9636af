"""The page of a run while it goes on, for browsers of this machine alone.

A page is made when the run says that a trial is done, so that nothing but the sending of bytes
happens while a program is timed, and only for somebody who asked since the last one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ansorc.errors import AnsorcError, ReportError
from ansorc.report.file_page import histories_of, report_page
from ansorc.report.page import page
from ansorc.search.record import RecordPlace, Records

_HOST = "127.0.0.1"
_REFRESH_S = 5
_LEAST_PAUSE = 10.0
"""Times as long as a page took to make, none is made again: a tenth of a run at most."""


class LivePage:
    """Serves what `report_page` makes of a record file; use it as a context manager.

    `port` 0 is any free one; `weights` says how often networks call each task, by its key;
    `fleet` is the scheduler of the devices that measure.
    """

    def __init__(
        self,
        port: int,
        records: RecordPlace,
        keys: Collection[str],
        weights: Mapping[str, int] | None,
        fleet: str = "",
    ) -> None:
        """Take the port; raise ReportError if it is taken, or if no charts can be drawn."""
        self._records, self._keys, self._weights = records, set(keys), weights
        self._fleet = fleet
        waiting = page("ansorc is tuning", "No trial is done yet; this page asks again.", [])
        self._content = waiting.encode()
        self._asked = threading.Event()
        self._next = 0.0
        try:
            self._server = ThreadingHTTPServer((_HOST, port), self._handler())
        except OSError as error:
            raise ReportError(
                f"port {port} cannot be served ({error.strerror}); name another with --live PORT, "
                "or none for one that is free"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://{_HOST}:{self._server.server_port}/"

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def update(self) -> None:
        """Make the page anew, if somebody asked since the last one, and if that was long ago.

        What cannot be read now is left for the next time: a run does not end for its picture.
        """
        begin = time.monotonic()
        if not self._asked.is_set() or begin < self._next:
            return
        self._asked.clear()
        try:
            self._content = self._page().encode()
        except AnsorcError:
            self._asked.set()
        took = time.monotonic() - begin
        self._next = begin + max(_REFRESH_S / 2, took * (1 + _LEAST_PAUSE))

    def _page(self) -> str:
        with Records.open(self._records, read_only=True) as opened:
            found = [one for one in opened.holdings() if one.task_key in self._keys]
            if not found:
                raise ReportError("no trial is recorded yet")
            histories, _ = histories_of(opened, found)
        return report_page(
            self._records, histories, self._weights, with_limits=False, fleet=self._fleet
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        live = self

        class Handler(BaseHTTPRequestHandler):
            """Answers with the page, and only to who asked for this machine by its name."""

            def do_GET(self) -> None:
                """Send the page, and ask the browser to come again."""
                host = self.headers.get("Host", "").rpartition(":")[0]
                if host not in {_HOST, "localhost"}:
                    self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine alone")
                    return
                if self.path != "/":
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                content = live._content
                live._asked.set()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Refresh", str(_REFRESH_S))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing among the lines of the run."""

        return Handler
