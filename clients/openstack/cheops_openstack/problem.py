"""The agent's errors in the form in which OpenStack's services write theirs.

The agent answers with application/problem+json. The clients only look into application/json, so that without
this they would say no more than "Bad Request".
"""

import json

PROBLEM = "application/problem+json"
# The scope itself is wrong: no request with it can succeed.
WRONG_SCOPE = {
    "scope_syntax",
    "scope_meaning",
    "scope_too_long",
    "scope_too_deep",
    "unknown_site",
    "unknown_service",
    "unknown_function",
}


class ScopeRefused(Exception):
    """An agent cannot read the scope, or does not know a name in it. Nothing was executed."""


def translate(response, *_args, **_kwargs):
    """A hook for the responses of a `requests` session. Raises ScopeRefused if the scope is wrong."""
    media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media != PROBLEM:
        return response
    try:
        problem = response.json()
    except ValueError:
        return response
    if not isinstance(problem, dict):
        return response
    if problem.get("code") in WRONG_SCOPE:
        # Not an error of HTTP: the clients would try to go on with other versions of a service.
        raise ScopeRefused(message(problem) + place(problem, response.request.headers.get("X-Scope")))
    error = {
        "code": response.status_code,
        "title": problem.get("title"),
        "message": message(problem),
    }
    # `requests` offers no other way to replace a body.
    response._content = json.dumps({"error": error}).encode()
    response.encoding = "utf-8"
    response.headers["Content-Type"] = "application/json"
    response.headers.pop("Content-Length", None)
    return response


def message(problem):
    """What happened, and the code under which the documentation explains it."""
    text = problem.get("detail") or problem.get("title") or "the agent refused"
    code = problem.get("code")
    return f"{text} [{code}]" if code else text


def place(problem, scope):
    """The scope, and below it a mark where it is wrong, if the agent tells that."""
    position = problem.get("position") or {}
    offset, length = position.get("offset"), position.get("length")
    if not scope or not isinstance(offset, int) or not isinstance(length, int):
        return ""
    return f"\n  {scope}\n  {' ' * offset}{'^' * max(length, 1)}"
