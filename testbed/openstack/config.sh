# shellcheck shell=bash
# Configuration of one site's services, written at every start. A service that runs keeps what it read.

database() { printf 'mysql+pymysql://root@localhost/%s_s%s?unix_socket=%s&charset=utf8' "$1" "$N" "$OS_RUN/mariadb/sock"; }

# own_account USER: how a service speaks for itself.
own_account() {
    cat <<END
auth_type = password
auth_url = $I_KEYSTONE/v3
username = $1
password = $PASSWORD
project_name = service
user_domain_id = default
project_domain_id = default
region_name = $REGION
END
}

# validation USER: how a service judges its callers' tokens.
validation() {
    cat <<END
[keystone_authtoken]
www_authenticate_uri = $P_KEYSTONE/v3
interface = internal
token_cache_time = $OS_TOKEN_CACHE
service_token_roles = service
service_token_roles_required = true
$(own_account "$1")
END
}

configure() {
    mkdir -p "$S"/etc/{keystone,glance,placement,nova,neutron} "$S"/{log,images,staging,tasks,nova,neutron,lock}
    keystone_conf >"$S/etc/keystone/keystone.conf"
    glance_conf >"$S/etc/glance/glance-api.conf"
    placement_conf >"$S/etc/placement/placement.conf"
    nova_conf >"$S/etc/nova/nova.conf"
    neutron_conf >"$S/etc/neutron/neutron.conf"
    openrc >"$OS_RUN/site$N.openrc"
}

openrc() {
    cat <<END
unset OS_TOKEN OS_CLOUD OS_PROJECT_ID OS_USER_ID
export OS_AUTH_URL=$P_KEYSTONE/v3 OS_USERNAME=admin OS_PASSWORD=$PASSWORD OS_PROJECT_NAME=admin
export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default OS_IDENTITY_API_VERSION=3
export OS_REGION_NAME=$REGION OS_INTERFACE=public OS_COMPUTE_API_VERSION=2.90
END
}

keystone_conf() {
    cat <<END
[DEFAULT]
log_file = $S/log/keystone.log
[database]
connection = $(database keystone)
[token]
provider = fernet
expiration = $OS_TOKEN_LIFE
allow_expired_window = $OS_EXPIRED_WINDOW
[fernet_tokens]
key_repository = $S/etc/keystone/fernet
[fernet_receipts]
key_repository = $S/etc/keystone/fernet
[credential]
key_repository = $S/etc/keystone/credential
[cache]
enabled = true
backend = dogpile.cache.memory
[oslo_middleware]
enable_proxy_headers_parsing = true
END
}

glance_conf() {
    cat <<END
[DEFAULT]
bind_host = ${L_GLANCE%:*}
bind_port = ${L_GLANCE#*:}
workers = 0
log_file = $S/log/glance-api.log
enabled_backends = fs:file
node_staging_uri = file://$S/staging
[database]
connection = $(database glance)
[glance_store]
default_backend = fs
[fs]
filesystem_store_datadir = $S/images
[os_glance_staging_store]
filesystem_store_datadir = $S/staging
[os_glance_tasks_store]
filesystem_store_datadir = $S/tasks
[paste_deploy]
flavor = keystone
config_file = /usr/share/glance-common/glance-api-paste.ini
[oslo_concurrency]
lock_path = $S/lock
[oslo_middleware]
enable_proxy_headers_parsing = true
$(validation glance)
END
}

placement_conf() {
    cat <<END
[DEFAULT]
log_file = $S/log/placement.log
[placement_database]
connection = $(database placement)
[oslo_middleware]
enable_proxy_headers_parsing = true
$(validation placement)
END
}

nova_conf() {
    cat <<END
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1:$OS_RABBIT_PORT/site$N
compute_driver = fake.FakeDriver
host = site$N-compute
my_ip = $IP
enabled_apis = osapi_compute
osapi_compute_listen = ${L_NOVA%:*}
osapi_compute_listen_port = ${L_NOVA#*:}
osapi_compute_workers = 1
state_path = $S/nova
# The fake driver forgets its servers at a restart; nova makes them again.
resume_guests_state_on_host_boot = true
[api_database]
connection = $(database nova_api)
[database]
connection = $(database nova)
[wsgi]
api_paste_config = /usr/share/nova-common/api-paste.ini
[conductor]
workers = 1
[quota]
instances = -1
cores = -1
ram = -1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 30
[oslo_concurrency]
lock_path = $S/lock
[oslo_middleware]
enable_proxy_headers_parsing = true
[vnc]
enabled = false
[upgrade_levels]
compute = auto
[glance]
valid_interfaces = internal
region_name = $REGION
[placement]
valid_interfaces = internal
$(own_account nova)
[neutron]
valid_interfaces = internal
$(own_account nova)
[service_user]
send_service_user_token = $([ "$OS_SERVICE_TOKEN" = 1 ] && echo true || echo false)
$(own_account nova)
$(validation nova)
END
}

neutron_conf() {
    cat <<END
[DEFAULT]
bind_host = ${L_NEUTRON%:*}
bind_port = ${L_NEUTRON#*:}
transport_url = rabbit://guest:guest@127.0.0.1:$OS_RABBIT_PORT/site$N
core_plugin = ml2
service_plugins =
api_workers = 0
rpc_workers = 0
state_path = $S/neutron
api_paste_config = /usr/share/neutron-common/api-paste.ini
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[ml2]
type_drivers = local,vlan
tenant_network_types = local
mechanism_drivers =
[ml2_type_vlan]
# With a range ml2 asks its database while it starts. Without any question before it, the first
# GET /ports fails with 500 (Port.port_forwardings).
network_vlan_ranges = physnet1:100:110
[database]
connection = $(database neutron)
[oslo_concurrency]
lock_path = $S/lock
[oslo_middleware]
enable_proxy_headers_parsing = true
$(validation neutron)
END
}
