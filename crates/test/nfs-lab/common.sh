# What crates/test/nfs-lab/up, crates/test/nfs-lab/down and crates/test/nfs-lab/cap share. Sourced, not run.
name=${LINESIDE_LAB_NAME:-lineside}     # of the namespaces: labs with different names can be up at once
server=$name-srv
client=$name-cli
server_link=lineside-s
client_link=lineside-c
# The mirror's: a bridge between the two, and who listens at it.
middle=$name-mid
tap=$name-tap
tap_link=lineside-t
# Addresses that RFC 5737 and RFC 3849 keep for documentation, so that no capture names a real host.
server_ipv4=192.0.2.1 client_ipv4=192.0.2.2
server_ipv6=2001:db8::1 client_ipv6=2001:db8::2
state=${LINESIDE_LAB:-${TMPDIR:-/tmp}/$name-lab}

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

need_root() {
    [ "$(id -u)" = 0 ] || fail "needs root, because it works in network namespaces: run it with sudo"
}

need_tools() {
    local tool missing=
    for tool in "$@"; do
        command -v "$tool" >/dev/null || missing+=" $tool"
    done
    [ -z "$missing" ] || fail "missing:$missing. On Debian: apt-get install --no-install-recommends" \
        "iproute2 ethtool rpcbind nfs-ganesha nfs-ganesha-vfs tcpdump"
}
