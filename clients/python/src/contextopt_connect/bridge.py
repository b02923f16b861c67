"""A bridge for tools that start an MCP server: `python -I -S bridge.py PLACE`.

It passes the messages on standard input to the server's own MCP address, and the answers back. The key is
read from the connection's file, so the tool needs no variable with it. PLACE is as for `hook.py`.
"""

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TextIO
from urllib.parse import urlsplit

if __package__ in {None, ""}:
    # Run as a file, without the environment's packages.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from contextopt_connect.hook import CONNECTIONS, find_connection, list_connections
from contextopt_connect.product import read_key

SECONDS = 60
AT_ONCE = 4
INTERNAL_ERROR = -32603
REVISION = "io.modelcontextprotocol/protocolVersion"
# The field that a request over HTTP repeats in a header.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
OUT_OF_REACH = (OSError, HTTPException)


class Bridge:
    """Passes messages to one server. `revision` is that of the last handshake, if there was one."""

    def __init__(self, connection: dict[str, Any], sink: TextIO) -> None:
        self.address = urlsplit(f"{connection['url']}/mcp")
        self.headers = {
            "Authorization": f"Bearer {read_key(connection)}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "User-Agent": f"contextopt-hook/{connection['tool']}",
        }
        self.revision = ""
        self.sink = sink
        self.lock = threading.Lock()

    def serve(self, source: TextIO) -> None:
        """Pass each line on until the input ends. Requests do not wait for each other."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for line in source:
                if line.strip():
                    pool.submit(self.pass_on, line)

    def pass_on(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        request = message if isinstance(message, dict) else {}
        try:
            answer = self.ask(line, request)
        except OUT_OF_REACH as error:
            place = f"{self.address.scheme}://{self.address.netloc}"
            answer = failure(request, f"Contextopt cannot be reached at {place}: {error}")
        if answer is not None and "id" in request:
            with self.lock:
                self.sink.write(f"{json.dumps(answer)}\n")
                self.sink.flush()

    def ask(self, line: str, request: dict[str, Any]) -> Any:
        """Return the answer to a message, or None if there is none."""
        kind = HTTPSConnection if self.address.scheme == "https" else HTTPConnection
        connection = kind(self.address.hostname or "", self.address.port, timeout=SECONDS)
        try:
            headers = {**self.headers, **self.repeated(request)}
            connection.request("POST", self.address.path, line.strip().encode(), headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        answer = read_answer(body, response.headers.get_content_type())
        if isinstance(answer, dict) and "jsonrpc" in answer:
            self.revision = (answer.get("result") or {}).get("protocolVersion") or self.revision
            return answer
        if response.status < 300:
            return None
        detail = answer.get("detail") if isinstance(answer, dict) else None
        return failure(request, f"Contextopt answered {response.status}: {detail or response.reason}")

    def repeated(self, request: dict[str, Any]) -> dict[str, str]:
        """Return the headers that repeat a part of the message."""
        params = request.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        revision = meta.get(REVISION) if isinstance(meta, dict) else None
        if not isinstance(revision, str):
            return {"MCP-Protocol-Version": self.revision} if self.revision else {}
        headers = {"MCP-Protocol-Version": revision, "Mcp-Method": str(request.get("method", ""))}
        name = params.get(NAMED_BY.get(headers["Mcp-Method"], ""))
        return {**headers, "Mcp-Name": name} if isinstance(name, str) else headers


def read_answer(body: bytes, content_type: str) -> Any:
    """Return the JSON of an answer, also of one that came as an event; None without any."""
    text = body.decode("utf-8", "replace")
    if content_type == "text/event-stream":
        text = "\n".join(line[5:].strip() for line in text.splitlines() if line.startswith("data:"))
    try:
        return json.loads(text)
    except ValueError:
        return None


def failure(request: dict[str, Any], message: str) -> dict[str, Any]:
    error = {"code": INTERNAL_ERROR, "message": message}
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": error}


def main(place: str, connections: str = CONNECTIONS) -> None:
    """Serve the connection of this folder, or else the tool's first one."""
    found = find_connection(place, os.getcwd(), connections)
    # A tool with one file for all repositories starts its servers everywhere.
    found = found or next(iter(list_connections(place, connections)), None)
    if found is None:
        sys.exit(f"Contextopt is not connected to {place} on this machine.")
    Bridge(found, sys.stdout).serve(sys.stdin)


if __name__ == "__main__":
    main(sys.argv[1])
