"""The live page of a run, for browsers of this machine only.

A page is made when the run reports that a trial is done, so that only bytes are sent while a
program is timed, and only if a browser has asked since the last page.
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
from ansorc.search.record import RecordLocation, Records

_HOST = "127.0.0.1"
_REFRESH_S = 5
_LEAST_PAUSE = 10.0
"""The least pause between pages, in times of making one: at most a tenth of a run."""


class LivePage:
    """Serves the `report_page` of a record file; use it as a context manager.

    `port` 0 is any free one. `weights` gives the number of calls of each task in networks, by key.
    `fleet` is the scheduler of the devices that measure.
    """

    def __init__(
        self,
        port: int,
        records: RecordLocation,
        keys: Collection[str],
        weights: Mapping[str, int] | None,
        fleet: str = "",
    ) -> None:
        """Open the port; raise ReportError if it is in use, or if charts cannot be drawn."""
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
        """The address of the page."""
        return f"http://{_HOST}:{self._server.server_port}/"

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def update(self) -> None:
        """Make a new page if a browser has asked since the last one, and the pause is over.

        Errors of reading are ignored until the next time: the page must not end a run.
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
            holdings = [holding for holding in opened.holdings() if holding.task_key in self._keys]
            if not holdings:
                raise ReportError("no trial is recorded yet")
            histories, _ = histories_of(opened, holdings)
        return report_page(
            self._records, histories, self._weights, with_limits=False, fleet=self._fleet
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        live = self

        class Handler(BaseHTTPRequestHandler):
            """Answers with the page, only to requests that name this machine."""

            def do_GET(self) -> None:
                """Send the page, and let the browser reload it."""
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
