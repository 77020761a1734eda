"""The `openstack` command with the extension, against a server that writes down what it is asked."""

import json
import os
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cheops_openstack import extension, problem

BRACES = "{compute: Site1, image: Site2}"


class Cloud(ThreadingHTTPServer):
    """An identity and an image service, as far as `token issue` and `image list` need them."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.seen = []
        self.problem = None
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def stop(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer()

    def answer(self):
        cloud = self.server
        cloud.seen.append((f"{self.command} {self.path}", self.headers.get("X-Scope")))
        if cloud.problem is not None:
            self.say(400, cloud.problem, "application/problem+json")
        elif self.command == "POST":
            self.say(201, token(cloud.url), headers={"X-Subject-Token": "t"})
        elif self.path.startswith("/image/v2/images"):
            self.say(200, {"images": [{"id": "1", "name": "debian", "status": "active"}]})
        elif self.path.startswith("/image"):
            self.say(300, {"versions": [link("v2.15", cloud.url + "/image/v2/")]})
        else:
            self.say(200, {"version": link("v3.14", cloud.url + "/v3/")})

    def say(self, status, document, media="application/json", headers=()):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


def link(version, url):
    return {"id": version, "status": "CURRENT", "links": [{"rel": "self", "href": url}]}


def token(url):
    def service(kind, path):
        endpoint = {"id": kind, "interface": "public", "region": "r", "region_id": "r", "url": url + path}
        return {"id": kind, "type": kind, "name": kind, "endpoints": [endpoint]}

    user = {"id": "u", "name": "u", "domain": {"id": "default", "name": "Default"}}
    project = {"id": "p", "name": "p", "domain": {"id": "default", "name": "Default"}}
    return {
        "token": {
            "methods": ["password"],
            "user": user,
            "project": project,
            "roles": [{"id": "r", "name": "member"}],
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "expires_at": "2100-01-01T00:00:00.000000Z",
            "audit_ids": ["a"],
            "catalog": [service("identity", "/v3"), service("image", "/image")],
        }
    }


class Command(unittest.TestCase):
    def setUp(self):
        self.cloud = Cloud()
        self.addCleanup(self.cloud.stop)

    def run_openstack(self, *args, **variables):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OS_", "CHEOPS_")) and not name.lower().endswith("_proxy")
        }
        environment.update(
            OS_AUTH_URL=self.cloud.url + "/v3",
            OS_USERNAME="u",
            OS_PASSWORD="secret",
            OS_PROJECT_NAME="p",
            OS_USER_DOMAIN_NAME="Default",
            OS_PROJECT_DOMAIN_NAME="Default",
            OS_IDENTITY_API_VERSION="3",
            **variables,
        )
        program = [sys.executable, "-m", "openstackclient.shell", *args]
        return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)

    def scopes_of(self, *args, **variables):
        done = self.run_openstack(*args, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        requests = [request for request, _ in self.cloud.seen]
        self.assertIn("POST /v3/auth/tokens", requests)
        self.assertTrue(any("/images" in request for request in requests), requests)
        scopes = {scope for _, scope in self.cloud.seen}
        self.cloud.seen.clear()
        self.assertIn("debian", done.stdout)
        return scopes

    def test_every_request_has_the_scope(self):
        self.assertEqual(self.scopes_of("image", "list"), {None})
        self.assertEqual(self.scopes_of("image", "list", "--scope", BRACES), {BRACES})
        self.assertEqual(self.scopes_of("--scope=image: Site1", "image", "list"), {"image: Site1"})

    def test_the_environment_gives_a_scope(self):
        both = {"OS_SCOPE": BRACES, "CHEOPS_SCOPE": "Site3"}
        self.assertEqual(self.scopes_of("image", "list", **both), {BRACES})
        self.assertEqual(self.scopes_of("image", "list", CHEOPS_SCOPE="Site3"), {"Site3"})
        self.assertEqual(self.scopes_of("image", "list", "--scope", "Site4", **both), {"Site4"})
        self.assertEqual(self.scopes_of("image", "list", "--scope", "", **both), {None})

    def test_a_wrong_scope_is_shown_once(self):
        self.cloud.problem = {
            "code": "unknown_site",
            "detail": "no site `Sit1` is known here",
            "position": {"offset": 7, "length": 4},
        }
        done = self.run_openstack("image", "list", "--scope", "image: Sit1")
        self.assertEqual(done.returncode, 1)
        lines = ["no site `Sit1` is known here [unknown_site]", "  image: Sit1", "         ^^^^"]
        self.assertEqual(done.stderr.splitlines(), lines)
        self.assertEqual(len(self.cloud.seen), 1)

    def test_an_agents_error_is_readable(self):
        self.cloud.problem = {"code": "peer_down", "detail": "site `Site2` is down"}
        done = self.run_openstack("image", "list", "--scope", "Site2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("site `Site2` is down [peer_down] (HTTP 400)", done.stderr)

    def test_a_scope_is_one_line(self):
        done = self.run_openstack("image", "list", "--scope", "a\nX-Other: b")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("one line", done.stderr)
        done = self.run_openstack("image", "list", OS_SCOPE="a\nX-Other: b")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("OS_SCOPE: a scope is one line", done.stderr)
        self.assertEqual(self.cloud.seen, [])


class Parts(unittest.TestCase):
    def test_the_variable_of_the_command_is_taken_away(self):
        environment = {"OS_SCOPE": " a ", "CHEOPS_SCOPE": "b"}
        self.assertEqual(extension.take_scope(environment), "a")
        self.assertEqual(environment, {"CHEOPS_SCOPE": "b"})
        self.assertEqual(extension.take_scope(environment), "b")
        self.assertEqual(extension.take_scope({}), "")

    def test_a_problem_has_a_text(self):
        self.assertEqual(problem.message({"detail": "d", "code": "c"}), "d [c]")
        self.assertEqual(problem.message({"title": "t"}), "t")
        self.assertEqual(problem.message({}), "the agent refused")
        self.assertEqual(problem.place({}, "a"), "")
        self.assertEqual(problem.place({"position": {"offset": 1, "length": 0}}, "a"), "\n  a\n   ^")


if __name__ == "__main__":
    unittest.main()
