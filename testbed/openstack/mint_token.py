"""mint_token.py CONFIGURATION SECONDS: a token of admin in project admin that ends so many seconds from now.

Made by keystone's own code with the site's keys and database: what keystone would have issued with
another life, without waiting for its end.
"""

import datetime
import sys

import keystone.conf
from keystone.common import utils
from keystone.server import backends

keystone.conf.configure()
keystone.conf.CONF(["--config-file", sys.argv[1]], project="keystone")
backends.load_backends()

from keystone.common import provider_api  # noqa: E402, after the backends
from keystone.models import token_model  # noqa: E402

apis = provider_api.ProviderAPIs
token = token_model.TokenModel()
token.user_id = apis.identity_api.get_user_by_name("admin", "default")["id"]
token.project_id = apis.resource_api.get_project_by_name("admin", "default")["id"]
token.methods = ["password"]
token.audit_id = "cheops"
ends = datetime.datetime.utcnow() + datetime.timedelta(seconds=int(sys.argv[2]))
token.expires_at = utils.isotime(ends, subsecond=True)
token.mint(*apis.token_provider_api.driver.generate_id_and_issued_at(token))
print(token.id)
