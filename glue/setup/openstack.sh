#!/bin/sh
# What an agent needs of its site's OpenStack to repeat replicated writes after the caller's token has ended.
#
# Run it once per site as an administrator, with the OS_* variables of that site, or paste it piece by piece. Sites
# that share one identity service need it once. It leaves the file openstack.json; name it in the site's
# configuration:
#
#     [services.identity]
#     credential = "openstack.json"
set -eu

user=${CHEOPS_USER:-cheops}
project=${CHEOPS_PROJECT:-service}
password=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')

# Who the agent is: a service user, with the role by which services recognise each other. It needs no other role:
# what a write may do is still decided by the caller's own token.
openstack role show service >/dev/null 2>&1 || openstack role create service
openstack project show "$project" >/dev/null 2>&1 || openstack project create "$project"
openstack user create --or-show --project "$project" --password "$password" "$user" >/dev/null
openstack user set --password "$password" "$user"
openstack role add --project "$project" --user "$user" service

# The body with which the agent asks for its token.
umask 077
cat >openstack.json <<EOF
{"auth": {
  "identity": {"methods": ["password"], "password": {"user": {
    "name": "$user", "domain": {"id": "default"}, "password": "$password"}}},
  "scope": {"project": {"name": "$project", "domain": {"id": "default"}}}
}}
EOF
echo "openstack.json is written: name it as \`credential\` in [services.identity]"

# In the configuration of each service (glance-api.conf, nova.conf, neutron.conf, …), so that only those with that role
# may speak beside a caller:
#
#     [keystone_authtoken]
#     service_token_roles = service
#     service_token_roles_required = true
#
# and in keystone.conf for how long a token that has ended is still good then, in seconds:
#
#     [token]
#     allow_expired_window = 172800
