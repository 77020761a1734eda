# shellcheck shell=bash
# Processes of the OpenStack sites: started in a group of their own, recorded, ended by the record.

UWSGI=(uwsgi --plugin python3 --processes 1 --threads 8 --enable-threads --master --die-on-term
    --lazy-apps --buffer-size 65535 --need-app --disable-logging
    # uwsgi keeps no connection alive but does not say so by itself.
    --add-header 'Connection: close')

# started PID: when the process started, in ticks. With the id it names a process for good: an id
# alone may have become another's.
started() {
    local stat
    [ -r "/proc/$1/stat" ] && stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    printf '%s' "${20}"
}

alive() {
    local pid since
    [ -s "$OS_RUN/pids/$1.pid" ] && read -r pid since <"$OS_RUN/pids/$1.pid" && [ "$(started "$pid")" = "$since" ]
}

# spawn NAME LOG COMMAND…: starts it unless it runs.
spawn() {
    local name=$1 output=$2
    shift 2
    if alive "$name"; then return 0; fi
    mkdir -p "$OS_RUN/pids" "$(dirname "$output")"
    setsid nohup "$@" >>"$output" 2>&1 </dev/null &
    printf '%s %s\n' $! "$(started $!)" >"$OS_RUN/pids/$name.pid"
    # No job of this shell: a `wait` here is not for it.
    disown
}

# reap NAME: ends its group, by force after 15 s.
reap() {
    local file=$OS_RUN/pids/$1.pid pid since
    [ -s "$file" ] || return 0
    read -r pid since <"$file"
    rm -f "$file"
    [ "$(started "$pid")" = "$since" ] || return 0
    kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null || return 0
    for _ in $(seq 150); do
        kill -0 -- "-$pid" 2>/dev/null || return 0
        sleep .1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
}

# memory_mib PID: what the processes of its group take, shared pages divided among their users.
memory_mib() {
    local pid
    for pid in $(ps -e -o pid=,pgid= | awk -v group="$1" '$2 == group { print $1 }'); do
        awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup" 2>/dev/null || true
    done | awk '{ kib += $1 } END { print int(kib / 1024) }'
}

# await_url URL: until it answers, whatever it says.
await_url() {
    for _ in $(seq 480); do
        if curl -s -o /dev/null -m 3 "$1"; then return 0; fi
        sleep .25
    done
    die "no answer from $1 within two minutes, see the logs in $OS_RUN"
}

sql() { mariadb --no-defaults -uroot -S "$OS_RUN/mariadb/sock" "$@"; }

start_mariadb() {
    spawn mariadb "$OS_RUN/mariadb/log" mariadbd --no-defaults --user=root --datadir="$OS_RUN/mariadb/data" \
        --socket="$OS_RUN/mariadb/sock" --pid-file="$OS_RUN/mariadb/pid" --skip-networking --max-connections=1000 \
        --innodb-buffer-pool-size=256M --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=0 \
        --skip-log-bin --character-set-server=utf8mb3 --performance-schema=OFF
}

await_mariadb() {
    for _ in $(seq 240); do
        if sql -e 'select 1' >/dev/null 2>&1; then return 0; fi
        sleep .25
    done
    die "mariadb does not answer, see $OS_RUN/mariadb/log"
}

# A node of its own beside whatever else uses Erlang on this machine: own port mapper, own home.
rabbit_environment() {
    export HOME=$OS_RUN/rabbit ERL_EPMD_PORT=$((OS_RABBIT_PORT - 1)) ERL_EPMD_ADDRESS=127.0.0.1 \
        RABBITMQ_NODENAME=cheops@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$OS_RABBIT_PORT \
        RABBITMQ_DIST_PORT=$((OS_RABBIT_PORT + 1)) RABBITMQ_MNESIA_BASE=$OS_RUN/rabbit/mnesia \
        RABBITMQ_LOG_BASE=$OS_RUN/rabbit RABBITMQ_PID_FILE=$OS_RUN/rabbit/pid RABBITMQ_CONF_ENV_FILE=/dev/null \
        RABBITMQ_ENABLED_PLUGINS_FILE=$OS_RUN/rabbit/plugins RABBITMQ_CONFIG_FILE=$OS_RUN/rabbit/rabbitmq.conf \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}'
}

start_rabbit() (
    mkdir -p "$OS_RUN/rabbit"
    cat >"$OS_RUN/rabbit/rabbitmq.conf" <<END
loopback_users = none
log.console = false
vm_memory_high_watermark.relative = 0.2
load_definitions = $OS_RUN/rabbit/definitions.json
END
    rabbit_definitions >"$OS_RUN/rabbit/definitions.json"
    rabbit_environment
    spawn rabbitmq "$OS_RUN/rabbit/out" /usr/lib/rabbitmq/bin/rabbitmq-server
)

# A vhost for each site, read at every start.
rabbit_definitions() {
    local n vhosts='' permissions=''
    for n in $OS_SITES; do
        vhosts+=", { \"name\": \"site$n\" }"
        permissions+=", { \"user\": \"guest\", \"vhost\": \"site$n\", \"configure\": \".*\", \"write\": \".*\", \"read\": \".*\" }"
    done
    printf '{ "users": [{ "name": "guest", "password": "guest", "tags": "administrator" }],\n  "vhosts": [%s],\n  "permissions": [%s] }\n' \
        "${vhosts#, }" "${permissions#, }"
}

await_rabbit() {
    for _ in $(seq 480); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$OS_RABBIT_PORT") 2>/dev/null; then return 0; fi
        sleep .25
    done
    die "rabbitmq does not answer, see $OS_RUN/rabbit"
}

start_infrastructure() {
    if needs_rabbit; then start_rabbit; fi
    if [ ! -d "$OS_RUN/mariadb/data" ]; then
        mkdir -p "$OS_RUN/mariadb"
        restore_databases || mariadb-install-db --no-defaults --user=root --datadir="$OS_RUN/mariadb/data" \
            --auth-root-authentication-method=normal --skip-test-db >"$OS_RUN/mariadb/install.log" 2>&1 ||
            die "mariadb-install-db failed, see $OS_RUN/mariadb/install.log"
    fi
    start_mariadb
    await_mariadb
    if needs_rabbit; then await_rabbit; fi
}

stop_infrastructure() {
    (
        rabbit_environment
        reap rabbitmq
        epmd -kill >/dev/null 2>&1 || true
    ) &
    reap mariadb &
    wait
}
