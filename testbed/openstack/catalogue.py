"""Roles, projects, users, services and endpoints of one site. Does nothing where all is as it should be."""

import os

from session import KEYSTONE, open_session

TYPES = {
    "keystone": ("identity", "/v3"),
    "glance": ("image", ""),
    "nova": ("compute", "/v2.1"),
    "placement": ("placement", ""),
    "neutron": ("network", ""),
}

session = open_session()


def find(kind, **query):
    answer = session.get(f"{KEYSTONE}/{kind}", params=query)
    answer.raise_for_status()
    return answer.json()[kind]


def ensure(kind, query, **more):
    """The first that the query finds, else a new one."""
    found = find(kind, **query)
    if found:
        return found[0]
    answer = session.post(f"{KEYSTONE}/{kind}", json={kind[:-1]: {**query, **more}})
    answer.raise_for_status()
    return answer.json()[kind[:-1]]


def ensure_user(name, project, *role_names):
    user = ensure(
        "users",
        {"name": name, "domain_id": "default"},
        password=os.environ["PASSWORD"],
        default_project_id=projects[project]["id"],
    )
    for role in role_names:
        path = f"/projects/{projects[project]['id']}/users/{user['id']}/roles/{roles[role]['id']}"
        session.put(KEYSTONE + path).raise_for_status()


def ensure_endpoint(service, interface, url):
    query = {"service_id": service["id"], "interface": interface, "region_id": os.environ["REGION"]}
    endpoint = ensure("endpoints", query, url=url)
    if endpoint["url"] != url:
        session.patch(f"{KEYSTONE}/endpoints/{endpoint['id']}", json={"endpoint": {"url": url}}).raise_for_status()


roles = {name: ensure("roles", {"name": name}) for name in ("admin", "member", "reader", "service")}
projects = {name: ensure("projects", {"name": name, "domain_id": "default"}) for name in ("admin", "service", "demo")}
ensure_user("demo", "demo", "member")
for name in os.environ["SERVICES"].split():
    kind, path = TYPES[name]
    if name != "keystone":
        ensure_user(name, "service", "admin", "service")
    service = ensure("services", {"type": kind}, name=name)
    public, internal, direct = (os.environ[f"{side}_{name.upper()}"] + path for side in "PIL")
    ensure_endpoint(service, "public", public)
    ensure_endpoint(service, "internal", internal)
    ensure_endpoint(service, "admin", direct)
