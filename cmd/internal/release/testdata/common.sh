# What install.sh and systemd.sh share.
ip link set lo up

step() { echo "== $*"; }

# What runs a command as the user of the service, with the variables that systemd would set.
user="setpriv --reuid nexus --regid nexus --clear-groups env -i HOME=/var/lib/nexus PATH=/usr/bin:/bin"
as() { $user "$@"; }

# same fails unless the two are equal.
same() { [ "$1" = "$2" ] || { printf 'FAIL: %s is\n%s\nnot\n%s\n' "$3" "$1" "$2"; exit 1; }; }

# ready waits until nexusd can serve.
ready() {
	for _ in $(seq 600); do
		as ledgerctl doctor --quiet >/dev/null 2>&1 && return 0
		sleep 0.2
	done
	echo "FAIL: nexusd is not ready"
	as ledgerctl doctor
}

version() { dpkg-deb -f "$1" Version; }
