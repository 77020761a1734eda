# shellcheck shell=bash
# Databases, keys and users of the sites: made once, which takes a minute, and then kept outside the
# checkout so that later runs begin with a copy.

# What the initialised state depends on: the packages, the sites and how they are made.
state_key() {
    local n
    {
        dpkg-query -W -f '${Package} ${Version}\n' "${PACKAGES[@]}"
        for n in $OS_SITES; do
            site "$n"
            printf '%s %s %s\n' "$N" "$SERVICES" "$(shares_identity && echo shared || echo own)"
        done
        cat "$HERE/databases.sh" "$HERE/config.sh"
    } | sha256sum | cut -c1-16
}

restore_databases() {
    local state
    state=$CACHE/openstack-$(state_key).tar.zst
    [ -e "$state" ] || return 1
    tar -C "$OS_RUN" --zstd -xf "$state" || die "$state cannot be unpacked; remove it and start again"
    log "databases restored from $state"
}

# Only files of a server that has ended are worth keeping.
keep_databases() {
    local state
    state=$CACHE/openstack-$(state_key).tar.zst
    [ ! -e "$state" ] || return 0
    mkdir -p "$CACHE"
    reap mariadb
    (cd "$OS_RUN" && tar --zstd -cf "$state.$$" mariadb/data site*/etc/keystone/fernet site*/etc/keystone/credential site*/.databases)
    mv "$state.$$" "$state"
    start_mariadb
    await_mariadb
}

# shares_identity: whether the site takes users and keys from the first one.
shares_identity() {
    [ "$N" != "${OS_SITES%% *}" ] && [ "$(of "SITE${N}_SHARED_IDENTITY" "$OS_SHARED_IDENTITY")" = 1 ]
}

make_databases() {
    local n made=()
    for n in $OS_SITES; do
        site "$n"
        [ ! -e "$S/.databases" ] || continue
        [ ${#made[@]} != 0 ] || log "making databases; this takes a minute, once"
        made+=("$n")
        configure
        make_keystone
        # Users and projects come before the sites that take them over.
        start_service keystone
        announce
        stop_service keystone
    done
    [ ${#made[@]} != 0 ] || return 0
    each make_others "${made[@]}"
    keep_databases
}

# run_logged NAME COMMAND…: with its output in a log of the site.
run_logged() {
    local output=$S/log/$1
    shift
    "$@" >>"$output" 2>&1 || die "\`$1\` failed, see $output"
}

make_database() { sql -e "create database if not exists ${1}_s$N character set utf8mb3"; }

keystone_manage() { run_logged keystone-manage.log keystone-manage --config-file "$S/etc/keystone/keystone.conf" "$@"; }

make_keystone() {
    local first=${OS_SITES%% *} keys=$S/etc/keystone
    make_database keystone
    keystone_manage db_sync
    if shares_identity; then
        # The same ids and keys; endpoints are each site's own.
        {
            echo 'set foreign_key_checks = 0;'
            sql -N -e "select concat('delete from \`', table_name, '\`; insert into \`', table_name, '\` select * from keystone_s$first.\`', table_name, '\`;')
                from information_schema.tables where table_schema = 'keystone_s$first' and table_type = 'BASE TABLE'
                and table_name not in ('endpoint', 'region', 'alembic_version', 'migrate_version')"
        } | sql "keystone_s$N"
        rm -rf "$keys/fernet" "$keys/credential"
        cp -a "$OS_RUN/site$first/etc/keystone/fernet" "$OS_RUN/site$first/etc/keystone/credential" "$keys/"
    else
        keystone_manage fernet_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
        keystone_manage credential_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
    fi
    keystone_manage bootstrap --bootstrap-password "$PASSWORD" --bootstrap-region-id "$REGION" \
        --bootstrap-public-url "$P_KEYSTONE/v3" --bootstrap-internal-url "$I_KEYSTONE/v3" --bootstrap-admin-url "http://$L_KEYSTONE/v3"
}

make_others() {
    if has glance; then
        make_database glance
        run_logged db-glance.log glance-manage --config-file "$S/etc/glance/glance-api.conf" db_sync
    fi
    if has placement; then
        make_database placement
        run_logged db-placement.log placement-manage --config-dir "$S/etc/placement" db sync
    fi
    if has neutron; then
        make_database neutron
        run_logged db-neutron.log neutron-db-manage --config-file "$S/etc/neutron/neutron.conf" upgrade heads
    fi
    if has nova; then
        local name manage=(run_logged db-nova.log nova-manage --config-file "$S/etc/nova/nova.conf")
        for name in nova_api nova nova_cell0; do make_database $name; done
        "${manage[@]}" api_db sync
        # Templates: nova fills in the rest from its own configuration, which may be another at the next start.
        "${manage[@]}" cell_v2 map_cell0 --database_connection "{scheme}://root@localhost/nova_cell0_s$N?{query}"
        "${manage[@]}" db sync
        "${manage[@]}" cell_v2 create_cell --name cell1 --database_connection "{scheme}://root@localhost/nova_s$N?{query}" \
            --transport-url "rabbit://guest:guest@127.0.0.1:{port}/site$N"
        # What `cell_v2 discover_hosts` would find out once nova-compute runs.
        sql "nova_api_s$N" -e "insert into host_mappings (created_at, cell_id, host) select now(), id, 'site$N-compute' from cell_mappings where name = 'cell1'"
    fi
    touch "$S/.databases"
}

# await_host: until nova-compute has told placement what there is to give away.
await_host() {
    for _ in $(seq 600); do
        if [ "$(sql -N "placement_s$N" -e 'select count(*) from inventories')" -ge 1 ]; then return 0; fi
        sleep .25
    done
    die "site $N: nova-compute did not register, see $S/log/nova-compute.log"
}
