#!/usr/bin/env bash
# Real, unmodified OpenStack sites for tests, on loopback: Debian's keystone, glance, placement,
# neutron-server and nova (api, conductor, scheduler, compute with the fake driver), one of each per
# site. One MariaDB and one RabbitMQ serve all sites, with databases and a vhost for each.
#
#   openstack-sites.sh install            the Debian packages; needs root
#   openstack-sites.sh start [N…]         installs what is missing, makes databases once, starts the sites
#   openstack-sites.sh run                starts all sites, prints `ready`, and stops them when its input ends
#   openstack-sites.sh stop [N…]          stops the given sites; without N everything
#   openstack-sites.sh up N SERVICE       starts one service of a site: keystone, glance, placement, neutron, nova
#   openstack-sites.sh down N SERVICE     stops it
#   openstack-sites.sh status             one line per process
#   openstack-sites.sh env N              OS_* variables for `openstack`, as a script for `.` or `eval`
#   openstack-sites.sh token N SECONDS    a token of admin at site N that ends after so many seconds (may be negative)
#   openstack-sites.sh clean              stops everything and removes $OS_RUN
#
# Two instances can live beside each other: give them another OS_RUN, OS_IP_PREFIX and OS_RABBIT_PORT.
#
#   OS_RUN=/tmp/cheops-openstack   state, configuration, logs (siteN/log) and recorded process ids
#   OS_SITES="1 2"                 the sites, by number
#   OS_IP_PREFIX=127.0.0.1         site N listens at ${OS_IP_PREFIX}N: 127.0.0.11, 127.0.0.12, …
#   OS_RABBIT_PORT=25671           RabbitMQ, with the ports before and after it
#   OS_SERVICES="keystone glance placement neutron nova"     SITE<N>_SERVICES for one site
#   OS_SHARED_IDENTITY=1           sites have the first site's users, projects and keys: a token of one is
#                                  valid at all. 0, or SITE<N>_SHARED_IDENTITY=0 for one: a keystone of its own
#   OS_TOKEN_LIFE=3600             seconds that a token lives
#   OS_EXPIRED_WINDOW=172800       seconds for which an ended token is good beside a service token
#   OS_TOKEN_CACHE=300             seconds for which services believe a validated token; -1: not at all
#   OS_SERVICE_TOKEN=0             1: nova sends a service token beside the user's
#   CHEOPS_TESTBED_CACHE           where initialised databases are kept between runs
#
# Services listen at keystone :5000, glance :9292, nova :8774, placement :8778, neutron :9696. What the
# catalogue announces, and so what clients and the other services call, is the service itself, or:
#
#   SITE<N>_{KEYSTONE,GLANCE,NOVA,PLACEMENT,NEUTRON}_URL            http://host:port, for users
#   SITE<N>_{KEYSTONE,GLANCE,NOVA,PLACEMENT,NEUTRON}_INTERNAL_URL   the same for services; default: that for users
#
# The interface `admin` has the services themselves, whatever is announced (OS_INTERFACE=admin).
#
# Whatever is announced must answer before `start`: services ask for each other while they start. To
# change what is announced: stop, and start with other variables.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/openstack
# The services are Debian's, run by Debian's own Python.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH PYTHONHOME OS_CLOUD OS_TOKEN

OS_RUN=${OS_RUN:-${TMPDIR:-/tmp}/cheops-openstack}
OS_SITES=${OS_SITES:-1 2}
OS_IP_PREFIX=${OS_IP_PREFIX:-127.0.0.1}
OS_RABBIT_PORT=${OS_RABBIT_PORT:-25671}
OS_SERVICES=${OS_SERVICES:-keystone glance placement neutron nova}
OS_SHARED_IDENTITY=${OS_SHARED_IDENTITY:-1}
OS_TOKEN_LIFE=${OS_TOKEN_LIFE:-3600}
OS_EXPIRED_WINDOW=${OS_EXPIRED_WINDOW:-172800}
OS_TOKEN_CACHE=${OS_TOKEN_CACHE:-300}
OS_SERVICE_TOKEN=${OS_SERVICE_TOKEN:-0}
CACHE=${CHEOPS_TESTBED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cheops/testbed}
PASSWORD=secret
PACKAGES=(
    python3-keystone glance-api glance-common python3-glance python3-placement
    nova-common nova-conductor nova-scheduler python3-neutron neutron-common
    python3-openstackclient rabbitmq-server mariadb-server-core mariadb-client-core
    uwsgi-plugin-python3 curl procps zstd
)

log() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() {
    log "ERROR: $*"
    exit 1
}

# shellcheck source=openstack/processes.sh
. "$HERE/processes.sh"
# shellcheck source=openstack/config.sh
. "$HERE/config.sh"
# shellcheck source=openstack/databases.sh
. "$HERE/databases.sh"

# of NAME DEFAULT: the variable of that name, or else the default.
of() {
    local name=$1
    printf '%s' "${!name:-$2}"
}

# site N: sets the variables of a site, which the other functions use.
#   N, S (its directory), IP, REGION, SERVICES, and for each service L_<NAME> (where it listens),
#   P_<NAME> (announced to users) and I_<NAME> (announced to services).
site() {
    N=$1
    S=$OS_RUN/site$N
    IP=$OS_IP_PREFIX$N
    REGION=Site$N
    SERVICES=$(of "SITE${N}_SERVICES" "$OS_SERVICES")
    local service name url
    for service in KEYSTONE:5000 GLANCE:9292 NOVA:8774 PLACEMENT:8778 NEUTRON:9696; do
        name=${service%:*}
        url=http://$IP:${service#*:}
        printf -v "L_$name" %s "$IP:${service#*:}"
        printf -v "P_$name" %s "$(of "SITE${N}_${name}_URL" "$url")"
        url=P_$name
        printf -v "I_$name" %s "$(of "SITE${N}_${name}_INTERNAL_URL" "${!url}")"
    done
}

# has SERVICE: whether the site runs it.
has() { [[ " $SERVICES " == *" $1 "* ]]; }

needs_rabbit() {
    local n
    for n in $OS_SITES; do
        site "$n"
        if has nova; then return 0; fi
    done
    return 1
}

install() {
    local missing=() package
    for package in "${PACKAGES[@]}"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return 0
    log "apt-get install ${missing[*]}"
    mkdir -p "$OS_RUN"
    # Debian starts services when it installs them, unless this file says no.
    local policy=/usr/sbin/policy-rc.d made=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        made=1
    fi
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600) failed=
    { "${apt[@]}" update &&
        "${apt[@]}" install -y --no-install-recommends --no-remove "${missing[@]}"; } >"$OS_RUN/apt.log" 2>&1 || failed=1
    [ -z "$made" ] || rm -f $policy
    [ -z "$failed" ] || die "apt-get failed, see $OS_RUN/apt.log"
}

# python FILE ARGUMENT…: one of the programs beside this one, with what it needs to know of the site.
python() {
    local program=$1
    shift
    env KEYSTONE="http://$L_KEYSTONE/v3" COMPUTE="http://$L_NOVA/v2.1" PASSWORD=$PASSWORD REGION="$REGION" SERVICES="$SERVICES" \
        L_KEYSTONE="http://$L_KEYSTONE" L_GLANCE="http://$L_GLANCE" L_NOVA="http://$L_NOVA" L_PLACEMENT="http://$L_PLACEMENT" L_NEUTRON="http://$L_NEUTRON" \
        P_KEYSTONE="$P_KEYSTONE" P_GLANCE="$P_GLANCE" P_NOVA="$P_NOVA" P_PLACEMENT="$P_PLACEMENT" P_NEUTRON="$P_NEUTRON" \
        I_KEYSTONE="$I_KEYSTONE" I_GLANCE="$I_GLANCE" I_NOVA="$I_NOVA" I_PLACEMENT="$I_PLACEMENT" I_NEUTRON="$I_NEUTRON" \
        /usr/bin/python3 "$HERE/$program" "$@"
}

# start_service SERVICE: its processes, if they do not run.
start_service() {
    local nova=(--config-file "$S/etc/nova/nova.conf")
    case $1 in
    keystone)
        OS_KEYSTONE_CONFIG_FILES=$S/etc/keystone/keystone.conf \
            spawn "site$N-keystone" "$S/log/keystone-uwsgi.log" "${UWSGI[@]}" --http-socket "$L_KEYSTONE" --wsgi-file /usr/bin/keystone-wsgi-public
        ;;
    glance)
        spawn "site$N-glance" "$S/log/glance.out" glance-api --config-file "$S/etc/glance/glance-api.conf"
        ;;
    placement)
        OS_PLACEMENT_CONFIG_DIR=$S/etc/placement \
            spawn "site$N-placement" "$S/log/placement-uwsgi.log" "${UWSGI[@]}" --http-socket "$L_PLACEMENT" --wsgi-file /usr/bin/placement-api
        ;;
    neutron)
        spawn "site$N-neutron" "$S/log/neutron.out" neutron-server --config-file "$S/etc/neutron/neutron.conf" --log-file "$S/log/neutron-server.log"
        ;;
    nova)
        spawn "site$N-nova-conductor" "$S/log/nova.out" nova-conductor "${nova[@]}" --log-file "$S/log/nova-conductor.log"
        spawn "site$N-nova-scheduler" "$S/log/nova.out" nova-scheduler "${nova[@]}" --log-file "$S/log/nova-scheduler.log"
        # What the start scripts of the packages nova-api and nova-compute do. The packages themselves
        # would bring a web server and a hypervisor.
        local main='import sys; from nova.cmd.%s import main; sys.argv[0] = "%s"; sys.exit(main())'
        # shellcheck disable=SC2059
        spawn "site$N-nova-api" "$S/log/nova.out" python3 -c "$(printf "$main" api_os_compute nova-api-os-compute)" "${nova[@]}" --log-file "$S/log/nova-api.log"
        # It tells placement at once what there is, and if nobody listens again after a minute.
        await_service placement
        # shellcheck disable=SC2059
        spawn "site$N-nova-compute" "$S/log/nova.out" python3 -c "$(printf "$main" compute nova-compute)" "${nova[@]}" --log-file "$S/log/nova-compute.log"
        ;;
    *) die "no service $1: keystone, glance, placement, neutron or nova" ;;
    esac
}

stop_service() {
    local process
    case $1 in
    nova) for process in nova-compute nova-api nova-scheduler nova-conductor; do reap "site$N-$process" & done ;;
    keystone | glance | placement | neutron) reap "site$N-$1" & ;;
    *) die "no service $1: keystone, glance, placement, neutron or nova" ;;
    esac
    wait
}

await_service() {
    case $1 in
    keystone) await_url "http://$L_KEYSTONE/v3" ;;
    glance) await_url "http://$L_GLANCE/healthcheck" ;;
    placement) await_url "http://$L_PLACEMENT/" ;;
    neutron) await_url "http://$L_NEUTRON/" ;;
    nova) await_url "http://$L_NOVA/" ;;
    esac
}

# each FUNCTION N…: the function for every site at the same time, and an error if one fails.
each() {
    local function=$1 n jobs=() job
    shift
    for n in "$@"; do
        (
            site "$n"
            "$function"
        ) &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || exit 1; done
}

start() {
    local n begun=$SECONDS
    install
    mkdir -p "$OS_RUN"
    start_infrastructure
    for n in "$@"; do
        site "$n"
        configure
    done
    make_databases
    for n in "$@"; do
        site "$n"
        start_service keystone
    done
    each announce "$@"
    log "keystone is up at every site ($((SECONDS - begun)) s)"
    each start_services "$@"
    for n in "$@"; do
        site "$n"
        log "site $N is up ($((SECONDS - begun)) s): OS_AUTH_URL=$P_KEYSTONE/v3, all of it in $OS_RUN/site$N.openrc"
    done
}

announce() {
    await_service keystone
    python catalogue.py
}

start_services() {
    local service
    for service in $SERVICES; do start_service "$service"; done
    for service in $SERVICES; do await_service "$service"; done
    if has nova; then
        python flavors.py
        await_host
    fi
}

# run: for a program that runs the sites as its children. They stop when the input ends.
run() {
    trap stop EXIT
    # Ctrl-C in the same terminal is for that program to handle.
    trap '' INT
    # shellcheck disable=SC2086
    start $OS_SITES
    echo ready
    cat >/dev/null
}

stop() {
    local n service
    for n in ${*:-$OS_SITES}; do
        (
            site "$n"
            for service in nova neutron placement glance keystone; do stop_service $service & done
            wait
        ) &
    done
    wait
    [ $# != 0 ] || stop_infrastructure
}

status() {
    local file name pid dead=0
    for file in "$OS_RUN"/pids/*.pid; do
        [ -e "$file" ] || continue
        name=$(basename "$file" .pid)
        read -r pid _ <"$file"
        if alive "$name"; then
            printf '%-22s pid %-7s up %5d MiB\n' "$name" "$pid" "$(memory_mib "$pid")"
        else
            printf '%-22s pid %-7s DEAD\n' "$name" "$pid"
            dead=1
        fi
    done
    return $dead
}

usage() { sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0"; }

command=${1:-help}
shift || true
case $command in
install) install ;;
start) start ${*:-$OS_SITES} ;;
run) run ;;
stop) stop "$@" ;;
up)
    site "${1:?which site}"
    start_service "${2:?which service}"
    await_service "$2"
    ;;
down)
    site "${1:?which site}"
    stop_service "${2:?which service}"
    ;;
status) status ;;
env) cat "$OS_RUN/site${1:?which site}.openrc" ;;
token)
    site "${1:?which site}"
    /usr/bin/python3 "$HERE/mint_token.py" "$S/etc/keystone/keystone.conf" "${2:?how many seconds}"
    ;;
clean)
    stop
    rm -rf "$OS_RUN"
    ;;
help | -h | --help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
