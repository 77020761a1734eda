"""What a keystoneauth session needs to speak with Cheops."""

from cheops_openstack.problem import translate

SCOPE_HEADER = "X-Scope"


def attach(session, scope):
    """Put the scope on every request of a keystoneauth1 session, and make the agent's errors readable.

    The requests for a token and for the versions of a service are requests of the session too.
    """
    # A dictionary of its own: the one that the session was given may belong to its caller.
    session.additional_headers = {**session.additional_headers, SCOPE_HEADER: scope}
    hooks = session.session.hooks.setdefault("response", [])
    if translate not in hooks:
        hooks.append(translate)
    return session
