"""A session with a site's own services, not with what its catalogue announces."""

import os

import requests

KEYSTONE = os.environ["KEYSTONE"]


def open_session():
    """Signed in as admin; proxies of the environment are none of our business."""
    session = requests.Session()
    session.trust_env = False
    default = {"id": "default"}
    answer = session.post(
        KEYSTONE + "/auth/tokens",
        json={
            "auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {
                        "user": {"name": "admin", "domain": default, "password": os.environ["PASSWORD"]}
                    },
                },
                "scope": {"project": {"name": "admin", "domain": default}},
            }
        },
    )
    answer.raise_for_status()
    session.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]
    return session
