"""A stand-in for airampd: the page from its sources and a node that the test makes up and moves.

It serves what `crates/airampd/src/page.rs` would, under the same policy, so that states which a real daemon
seldom has (gone, empty, hostile names, 64 ranks) can be looked at.
"""

import base64
import copy
import hashlib
import http.server
import json
import math
import pathlib
import re
import socket
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAEMON = ROOT / "crates/airampd"
FIXTURE = ROOT / "crates/observer/fixtures/node.json"


def page():
    """The document and its policy, put together as page.rs does it and in its order."""
    rust = (DAEMON / "src/page.rs").read_text()
    scripts = [(DAEMON / "page" / name).read_text() for name in re.findall(r'include_str!\("\.\./page/(\w+\.js)"\)', rust)]
    script = "\n" + "\n".join(scripts)
    style = "\n" + (DAEMON / "page/page.css").read_text()
    html = (DAEMON / "page/index.html").read_text().replace("/* style */", style, 1).replace("/* script */", script, 1)
    named = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in (("script", script), ("style", style))}
    policy = re.search(r'"(default-src .*?)",\n', rust, re.S).group(1).replace("\\\n", "")
    policy = re.sub(r"\s+", " ", policy).replace("{}", f"sha256-{named['script']}", 1).replace("{}", f"sha256-{named['style']}", 1)
    return html, policy


def held_port():
    """A port that is nobody else's, for a server to listen on again and again: HTTPServer sets SO_REUSEADDR."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


class StandIn:
    """Serves on a free port of 127.0.0.1. `change(node)` alters what it says next."""

    def __init__(self, looks=300, token=None):
        self.node = json.loads(FIXTURE.read_text())
        self.token = token
        self.frozen = False
        self.gone = False
        self.asked = 0
        self.fetched = []
        self.evidence = {"schema": 1, "folder": "/var/lib/airamp/evidence", "files": [
            {"name": f"evidence-178903439{second}000-late_rank-4711-0.jsonl", "bytes": 40_960, "time_unix_ms": 1789034390000 + 1000 * second} for second in range(3)]}
        self.lock = threading.Lock()
        self._move_to_now()
        self.history = {job["label"]: self._past(job, looks) for job in self.node["jobs"]}
        self.held = held_port()
        self.port = self.held.getsockname()[1]
        self.server = self._start()
        self.address = f"http://127.0.0.1:{self.port}"

    def _start(self):
        stand_in = self

        class Answer(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                stand_in.answer(self)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Answer)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def _move_to_now(self):
        shift = int(time.time() * 1000) - self.node["time_unix_ms"]

        def move(value):
            if isinstance(value, list):
                return [move(each) for each in value]
            if isinstance(value, dict):
                return {key: each + shift if key.endswith("unix_ms") and each else move(each) for key, each in value.items()}
            return value

        self.node = move(self.node)

    def _past(self, job, looks):
        now = self.node["time_unix_ms"]
        ranks = [rank["rank"] for rank in job["ranks"] if rank["rank"] is not None]
        past = {"times_unix_ms": [], "logical_bytes_per_s": [], "wire_bytes_per_s": [], "saved_bytes_per_s": [], "mean_latency_s": [], "calls_per_s": [], "lag_s": {str(rank): [] for rank in ranks}}
        for index in range(looks):
            swing = 1 + 0.12 * math.sin(index / 11) + 0.05 * math.sin(index * 1.7)
            tuned = index > looks // 4
            rates = job["rates"]
            past["times_unix_ms"].append(now - (looks - index) * 1000)
            past["logical_bytes_per_s"].append(rates["logical_bytes_per_s"] * swing * (1 if tuned else 0.55))
            past["wire_bytes_per_s"].append(rates["wire_bytes_per_s"] * swing * (1 if tuned else 1.08))
            past["saved_bytes_per_s"].append(rates["saved_bytes_per_s"] * swing * (1 if tuned else 0))
            known = rates["mean_latency_s"] is not None
            past["mean_latency_s"].append(rates["mean_latency_s"] * (2 - swing) * (1 if tuned else 1.8) if known else None)
            past["calls_per_s"].append(rates["calls_per_s"] * swing)
            for rank in ranks:
                late = 0.087 if rank == 3 and index > looks * 0.7 else 0.0
                past["lag_s"][str(rank)].append(abs(math.sin(index * 0.7 + rank * 2.1)) * 0.0012 + late)
        return past

    def answer(self, request):
        if self.gone:
            request.close_connection = True
            return None
        path = urllib.parse.urlsplit(request.path)
        if path.path == "/":
            html, policy = page()
            return self._send(request, 200, html, "text/html; charset=utf-8", policy)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self._send(request, 401, "{}", "application/json")
        with self.lock:
            self.asked += 1
            if path.path.startswith("/api/v1/evidence/"):
                self.fetched.append(path.path.rsplit("/", 1)[1])
                return self._send(request, 200, '{"record":"finding"}\n', "application/jsonl")
            if path.path == "/api/v1/evidence":
                body = self.evidence
            elif path.path == "/api/v1/node":
                body = self._look()
            else:
                body = self._timeline(urllib.parse.parse_qs(path.query, keep_blank_values=True))
        return self._send(request, 200, json.dumps(body), "application/json")

    def _send(self, request, status, text, kind, policy=None):
        data = text.encode()
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(data)))
        if policy:
            request.send_header("Content-Security-Policy", policy)
        request.end_headers()
        request.wfile.write(data)

    def _look(self):
        """The node, a second of work further on, unless the test has frozen it."""
        if self.frozen:
            return self.node
        now = int(time.time() * 1000)
        node = self.node
        node["time_unix_ms"] = now
        for job in node["jobs"]:
            past = self.history.get(job["label"])
            if past and past["times_unix_ms"]:
                for name, values in past.items():
                    if name == "times_unix_ms":
                        values.append(now)
                    elif name == "lag_s":
                        for lags in values.values():
                            lags.append(lags[len(lags) // 2])
                    else:
                        values.append(values[len(values) // 2])
        for nic in node["nics"]:
            nic["sent_bytes"] += 950_000_000
            nic["received_bytes"] += 910_000_000
        for calls in node["totals"]["calls"]:
            calls["calls"] += 7
            calls["logical_bytes"] += 7 << 26
            calls["wire_bytes"] += 7 << 25
        return node

    def _timeline(self, query):
        empty = {"times_unix_ms": [], "lag_s": {}}
        past = self.history.get(query.get("job", [""])[0], empty)
        since = int(query.get("since", ["0"])[0] or 0)
        first = next((index for index, time_ in enumerate(past["times_unix_ms"]) if time_ > since), len(past["times_unix_ms"]))
        return {name: ({rank: lags[first:] for rank, lags in values.items()} if name == "lag_s" else values[first:]) for name, values in past.items()}

    def change(self, how):
        with self.lock:
            how(self.node)

    def freeze(self):
        with self.lock:
            self.frozen = True
            return copy.deepcopy(self.node)

    def stop(self):
        self.gone = True
        self.server.shutdown()
        self.server.server_close()

    def restart(self):
        self.gone = False
        self.server = self._start()
