"""Two flavors. Nova validates the token at what is announced as identity, so that must be up."""

import os
import time

from session import open_session

FLAVORS = [
    {"id": "1", "name": "m1.nano", "ram": 64, "vcpus": 1, "disk": 0},
    {"id": "2", "name": "m1.tiny", "ram": 512, "vcpus": 1, "disk": 1},
]

session = open_session()
url = os.environ["COMPUTE"] + "/flavors"
deadline = time.monotonic() + 60
while True:
    statuses = [session.post(url, json={"flavor": flavor}).status_code for flavor in FLAVORS]
    if all(status in (200, 409) for status in statuses):
        break
    if time.monotonic() > deadline:
        raise SystemExit(f"nova answers {statuses} to new flavors; are the announced URLs up?")
    time.sleep(0.5)
