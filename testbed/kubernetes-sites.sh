#!/usr/bin/env bash
# Real, unmodified Kubernetes control planes on one machine: per site one etcd, one kube-apiserver and one
# kube-controller-manager, all on loopback. There is no kubelet: pods stay Pending, and everything else that the
# API does works.
#
#   kubernetes-sites.sh build        builds the control plane, once per machine: about 4 minutes on 2 cores
#   kubernetes-sites.sh start [N]    starts N sites (2), after a build if there is none, and returns
#   kubernetes-sites.sh run [N]      the same, prints `ready`, and stops the sites when its standard input ends
#   kubernetes-sites.sh restart I    stops the API server of site I and starts it again, with its files as they are now
#   kubernetes-sites.sh stop         stops what start or run left, and removes the run directory
#
# Where things are, set by the environment:
#   CHEOPS_TESTBED_RUN     /tmp/cheops-k8s         everything about the running sites; one instance per directory
#   CHEOPS_TESTBED_PORT    16443                   API server of site i: this + i; etcd: this + 100 + 2i and the next
#   CHEOPS_TESTBED_CACHE   ~/.cache/cheops/testbed downloads and builds
#
# Per site, below $CHEOPS_TESTBED_RUN/site<i>:
#   kubeconfig                      a cluster administrator, by the bearer token `admin-token`
#   tokens.csv                      the bearer tokens; `user-token` is the user `user`, without rights until some are bound
#   pki/ca.{crt,key}                who signed the API server's certificate
#   pki/front-proxy-client.{crt,key}
#                                   whoever connects with it is believed about X-Remote-User and X-Remote-Group
#   *.log, *.pid
set -euo pipefail

CACHE=${CHEOPS_TESTBED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cheops/testbed}
RUN=${CHEOPS_TESTBED_RUN:-/tmp/cheops-k8s}
PORT=${CHEOPS_TESTBED_PORT:-16443}
# The last number is raised with every change of how the control plane is built, so that an older build is not used.
BIN=$CACHE/kubernetes-1.20-2
START_TIMEOUT_S=90

say() { printf '%s\n' "$*"; }
fail() { printf 'kubernetes-sites: %s\n' "$*" >&2; exit 1; }

# --- build ---------------------------------------------------------------------------------------------------------

# A library whose version in the source of Kubernetes 1.20 crashes when it is compiled by Go 1.18 or later: an API
# server would end when the first custom resource is created. Debian has the version that does not.
REFLECT2=/usr/share/gocode/src/github.com/modern-go/reflect2

is_built() { [[ -x $BIN/kube-apiserver && -x $BIN/kube-controller-manager ]]; }
has_tools() { command -v kubectl etcd openssl >/dev/null; }

# Debian packages of the programs that are missing; `build` adds what only the compilation needs.
install_packages() {
    local packages=()
    command -v kubectl >/dev/null || packages+=(kubernetes-client)
    command -v etcd >/dev/null || packages+=(etcd-server)
    command -v openssl >/dev/null || packages+=(openssl)
    if [[ ${1:-} == with-compiler ]]; then
        command -v go >/dev/null || packages+=(golang-go)
        command -v dpkg-source >/dev/null || packages+=(dpkg-dev)
        [[ -d $REFLECT2 ]] || packages+=(golang-github-modern-go-reflect2-dev)
    fi
    ((${#packages[@]})) || return 0
    as_root_with_apt "${packages[@]}"
    say "installing ${packages[*]}"
    apt_get update
    # Debian starts a server when it is installed; nothing here uses that instance.
    RUNLEVEL=1 apt_get install --yes --no-install-recommends "${packages[@]}"
}

as_root_with_apt() {
    command -v apt-get >/dev/null || fail "needs $*, and there is no apt-get: install them and try again"
    ((EUID == 0)) || fail "needs $*: install them as root and try again"
}

apt_get() { DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 "$@" >/dev/null; }

build() {
    if is_built && has_tools; then return; fi
    mkdir -p "$CACHE"
    # Two builds at once would only be slower; the second finds what the first has made.
    exec 9>"$CACHE/kubernetes.lock"
    flock --nonblock 9 || { say "another build is running: waiting for it"; flock 9; }
    if is_built; then
        install_packages
    else
        install_packages with-compiler
        compile
    fi
    exec 9>&-
}

compile() {
    local work started=$SECONDS
    work=$(mktemp -d "$CACHE/build.XXXXXX")
    # The directory's path is fixed when the trap is set: `work` is gone when it runs.
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    say "fetching the source of Debian's package kubernetes"
    fetch_source "$work" || fail "the source of the package kubernetes cannot be fetched: see $CACHE/build.log"
    say "compiling kube-apiserver and kube-controller-manager, about 4 minutes on 2 cores"
    compile_in "$work" >>"$CACHE/build.log" 2>&1 || fail "the compilation failed: see $CACHE/build.log"
    rm -rf "$work"
    trap - EXIT
    say "built in $((SECONDS - started)) s"
}

# The source package, with apt's lists and sources in a place of their own: the machine's stay as they are.
fetch_source() {
    local work=$1 apt=$1/apt
    as_root_with_apt "the source package kubernetes"
    mkdir -p "$apt/lists/partial" "$apt/sources"
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        case $file in
            *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$apt/sources/$(basename "$file")" ;;
            *.list) [[ ! -e $file ]] || sed 's/^deb /deb-src /' "$file" >"$apt/sources/$(basename "$file")" ;;
        esac
    done
    local options=(-o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$apt/sources" -o "Dir::State::lists=$apt/lists"
        -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o "APT::Sandbox::User=root")
    (
        cd "$work"
        apt-get "${options[@]}" update
        apt-get "${options[@]}" source --download-only kubernetes
    ) >"$CACHE/build.log" 2>&1
}

# The upstream tarball, without Debian's patches. What upstream's Makefile generates before it compiles is one
# file: the OpenAPI definitions.
compile_in() {
    local work=$1 packages
    mkdir -p "$work/gopath/src/k8s.io"
    tar -xzf "$work"/kubernetes_*.orig.tar.gz -C "$work"
    mv "$work"/kubernetes-*/ "$work/gopath/src/k8s.io/kubernetes"
    cd "$work/gopath/src/k8s.io/kubernetes"
    rm -r vendor/github.com/modern-go/reflect2
    cp -r "$REFLECT2" vendor/github.com/modern-go/
    export GO111MODULE=off GOPATH=$work/gopath CGO_ENABLED=0 GOFLAGS='' GOCACHE=$work/gocache
    go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    packages=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg cmd staging/src/k8s.io \
        | grep -v -e _test.go -e zz_generated | xargs -n1 dirname | sort -u \
        | grep -v -e sample-apiserver -e code-generator -e kube-openapi -e '^pkg/generated' -e _examples \
        | sed -e 's#^staging/src/k8s.io/#k8s.io/kubernetes/vendor/k8s.io/#' -e 's#^\(pkg\|cmd\)/#k8s.io/kubernetes/\1/#' \
        | sort -u | paste -sd,)
    "$work/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
        -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r /dev/null --output-base "$work/gopath/src"
    mkdir -p "$work/bin"
    go build -o "$work/bin/" ./cmd/kube-apiserver ./cmd/kube-controller-manager
    # In one step each, so that a build that was stopped leaves nothing that looks complete.
    mkdir -p "$BIN"
    mv "$work/bin/kube-apiserver" "$work/bin/kube-controller-manager" "$BIN/"
}

# --- sites ---------------------------------------------------------------------------------------------------------

site_dir() { printf '%s/site%s' "$RUN" "$1"; }
api_port() { printf '%s' "$((PORT + $1))"; }
etcd_port() { printf '%s' "$((PORT + 100 + 2 * $1))"; }

# key_and_cert <dir> <name> <subject> <subjectAltName> [<CA name>]; without a CA the certificate is one.
key_and_cert() {
    local dir=$1 name=$2 subject=$3 names=$4 ca=${5:-}
    local signed=(-addext 'basicConstraints=critical,CA:TRUE')
    [[ -z $ca ]] || signed=(-CA "$dir/$ca.crt" -CAkey "$dir/$ca.key" -addext 'basicConstraints=critical,CA:FALSE')
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj "$subject" \
        -addext "subjectAltName=$names" "${signed[@]}" -keyout "$dir/$name.key" -out "$dir/$name.crt" 2>/dev/null
}

# launch <dir> <name> <program> [<argument>...]: in the background, in a session of its own, out of reach of Ctrl-C.
launch() {
    local dir=$1 name=$2
    shift 2
    setsid "$@" >>"$dir/$name.log" 2>&1 </dev/null 9>&- &
    echo $! >"$dir/$name.pid"
}

# end <pid file> [<signal>]: ends the process, if it is still ours: its arguments name the run directory.
end() {
    local file=$1 signal=${2:-TERM} pid
    [[ -e $file ]] || return 0
    pid=$(<"$file")
    if is_ours "$pid"; then
        kill -s "$signal" "$pid" 2>/dev/null || true
        for _ in {1..100}; do
            is_ours "$pid" || break
            sleep 0.1
        done
        if is_ours "$pid"; then kill -s KILL "$pid" 2>/dev/null || true; fi
    fi
    rm -f "$file"
}

is_ours() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF -- "$RUN/"; }

prepare_site() {
    local i=$1 dir pki
    dir=$(site_dir "$i") pki=$dir/pki
    mkdir -p "$pki"
    key_and_cert "$pki" ca '/CN=kubernetes-ca' 'DNS:kubernetes-ca'
    key_and_cert "$pki" apiserver '/CN=kube-apiserver' \
        'IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc' ca
    key_and_cert "$pki" front-proxy-ca '/CN=front-proxy-ca' 'DNS:front-proxy-ca'
    key_and_cert "$pki" front-proxy-client '/CN=front-proxy-client' 'DNS:front-proxy-client' front-proxy-ca
    openssl ecparam -name prime256v1 -genkey -noout -out "$pki/service-accounts.key"
    printf 'admin-token,admin,1,"system:masters"\nuser-token,user,2\n' >"$dir/tokens.csv"
    cat >"$dir/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: site$i, cluster: {server: "https://127.0.0.1:$(api_port "$i")", certificate-authority: "$pki/ca.crt"}}]
users: [{name: admin, user: {token: admin-token}}]
contexts: [{name: site$i, context: {cluster: site$i, user: admin}}]
current-context: site$i
END
}

start_etcd() {
    local i=$1 dir port
    dir=$(site_dir "$i") port=$(etcd_port "$i")
    launch "$dir" etcd etcd --data-dir "$dir/etcd" --name "site$i" --unsafe-no-fsync \
        --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
        --listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
        --initial-cluster "site$i=http://127.0.0.1:$((port + 1))"
}

start_apiserver() {
    local i=$1 dir pki
    dir=$(site_dir "$i") pki=$dir/pki
    launch "$dir" apiserver "$BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$(etcd_port "$i")" \
        --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --secure-port="$(api_port "$i")" \
        --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
        --token-auth-file="$dir/tokens.csv" --authorization-mode=RBAC \
        --service-cluster-ip-range=10.0.0.0/24 --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file="$pki/service-accounts.key" \
        --service-account-signing-key-file="$pki/service-accounts.key" \
        --requestheader-client-ca-file="$pki/front-proxy-ca.crt" --requestheader-allowed-names= \
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
        --requestheader-extra-headers-prefix=X-Remote-Extra- \
        --proxy-client-cert-file="$pki/front-proxy-client.crt" --proxy-client-key-file="$pki/front-proxy-client.key"
}

start_controller_manager() {
    local i=$1 dir
    dir=$(site_dir "$i")
    launch "$dir" controller-manager "$BIN/kube-controller-manager" --kubeconfig="$dir/kubeconfig" --leader-elect=false \
        --port=0 --secure-port=0 --service-account-private-key-file="$dir/pki/service-accounts.key" \
        --root-ca-file="$dir/pki/ca.crt"
}

# Waits until the site's API server is ready, and says what it wrote last if it never is.
await_apiserver() {
    local i=$1 dir deadline=$((SECONDS + START_TIMEOUT_S))
    dir=$(site_dir "$i")
    until kubectl --kubeconfig "$dir/kubeconfig" get --raw /readyz >/dev/null 2>&1; do
        is_ours "$(<"$dir/apiserver.pid")" || fail "the API server of site$i ended; $(tail -n 5 "$dir/apiserver.log")"
        ((SECONDS < deadline)) || fail "the API server of site$i is not ready after $START_TIMEOUT_S s: see $dir/apiserver.log"
        sleep 0.2
    done
}

# No pod is accepted before the namespace has its service account, and that a token: the API server makes the
# namespace a moment after it is ready, the controller manager the rest.
await_service_account() {
    local i=$1 dir deadline=$((SECONDS + START_TIMEOUT_S)) token=''
    dir=$(site_dir "$i")
    until [[ -n $token ]]; do
        ((SECONDS < deadline)) \
            || fail "site$i has no service account with a token after $START_TIMEOUT_S s: see $dir/controller-manager.log"
        sleep 0.2
        token=$(kubectl --kubeconfig "$dir/kubeconfig" --namespace default get serviceaccount default \
            --output 'jsonpath={.secrets[*].name}' 2>/dev/null) || true
    done
}

start() {
    local n=$1 i
    [[ $n =~ ^[1-9]$ ]] || fail "the number of sites is between 1 and 9, not \`$n\`"
    # Several together start faster than one after the other, and what an earlier instance left is in the way.
    stop
    for ((i = 1; i <= n; i++)); do
        prepare_site "$i"
        start_etcd "$i"
        start_apiserver "$i"
    done
    for ((i = 1; i <= n; i++)); do
        await_apiserver "$i"
        start_controller_manager "$i"
    done
    for ((i = 1; i <= n; i++)); do
        await_service_account "$i"
        say "site$i https://127.0.0.1:$(api_port "$i") kubeconfig=$(site_dir "$i")/kubeconfig"
    done
}

run() {
    trap stop EXIT
    # Who runs this closes the input; Ctrl-C in the same terminal is for that program to handle.
    trap '' INT
    start "$1"
    say ready
    cat >/dev/null
}

restart() {
    local i=$1
    [[ -d $(site_dir "$i") ]] || fail "site$i is not running in $RUN"
    # Asked to end it would wait for its watches; everything that it knows is in etcd.
    end "$(site_dir "$i")/apiserver.pid" KILL
    start_apiserver "$i"
    await_apiserver "$i"
}

stop() {
    local file
    for file in "$RUN"/site*/{controller-manager,apiserver,etcd}.pid; do
        end "$file"
    done
    # Only what this script makes: the directory may be somebody's own.
    rm -rf "$RUN"/site[1-9]
    rmdir "$RUN" 2>/dev/null || true
}

usage() { sed -n '/^# Real/,/^set -euo/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }

main() {
    case ${1:-} in
        build) build ;;
        # Not joined by `&&`: bash does not stop at errors inside a function on its left.
        start)
            build
            start "${2:-2}"
            ;;
        run)
            build
            run "${2:-2}"
            ;;
        restart) restart "${2:?which site: a number}" ;;
        stop) stop ;;
        help | --help | -h) usage ;;
        *)
            usage >&2
            exit 2
            ;;
    esac
}

# On one line: bash reads a script as it goes, and whoever changes this file must not change what runs.
main "$@"; exit
