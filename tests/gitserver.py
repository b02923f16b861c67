"""Serves git repositories over real HTTP, as `git http-backend` does, and remembers who asked for what."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from contextopt.spaces.importing.git import git_environment


class GitServer(ThreadingHTTPServer):
    """Serves the repositories below a folder. `redirects` maps paths to where they have moved."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.redirects: dict[str, str] = {}
        self.token_header = ""
        self.is_dumb = False
        self.asked: list[tuple[str, str]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str, host: str = "localhost") -> str:
        return f"http://{host}:{self.port}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: GitServer

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        server, parts = self.server, urlsplit(self.path)
        given = self.headers.get("Authorization", "")
        server.asked.append((self.path, given))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        repository, _, service = parts.path.strip("/").partition(".git/")
        if target := server.redirects.get(parts.path.partition("/info/")[0]):
            self._answer(302, b"", Location=f"{target}/info/refs?{parts.query}")
        elif server.token_header and given != server.token_header:
            self._answer(401, b"")
        elif not (folder := server.root / f"{repository}.git").is_dir():
            self._answer(404, b"")
        elif server.is_dumb:
            self._answer(200, b"", content_type="text/plain")
        elif service == "info/refs":
            kind = parse_qs(parts.query)["service"][0]
            answer = self._run(folder, b"", "--advertise-refs")
            head = f"# service={kind}\n"
            packet = f"{len(head) + 4:04x}{head}0000".encode()
            self._answer(200, packet + answer, content_type=f"application/x-{kind}-advertisement")
        else:
            self._answer(200, self._run(folder, body), content_type="application/x-git-upload-pack-result")

    def _run(self, folder: Path, body: bytes, *options: str) -> bytes:
        environment = git_environment() | {"GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        command = ["git", "upload-pack", "--stateless-rpc", *options, str(folder)]
        return subprocess.run(command, input=body, capture_output=True, env=environment, check=False).stdout

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": content_type,
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(root: Path) -> Iterator[GitServer]:
    server = GitServer(root)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
