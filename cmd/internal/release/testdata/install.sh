#!/bin/sh
# Installs, uses, upgrades and purges the package of Debian, with nexusd as a plain process.
# TestPackageOfDebian runs it as root in a copy of this machine's files, which is thrown away,
# with a network of its own.
set -eu
cd /nexus-release
. ./common.sh

# start runs the command of the unit, and waits until it can serve.
start() {
	command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/nexusd.service)
	cd /var/lib/nexus
	$user $command >/tmp/ready 2>/tmp/log &
	daemon=$!
	cd /nexus-release
	ready || { cat /tmp/log; return 1; }
}

stop() {
	kill "$daemon"
	wait "$daemon"
}

step install "$(version old.deb)"
dpkg -i old.deb
same "$(nexusd --version)" "nexusd $(version old.deb)" "nexusd --version"
same "$(ledgerctl --version)" "ledgerctl $(version old.deb)" "ledgerctl --version"
same "$(stat -c '%U:%G %a' /var/lib/nexus)" "nexus:nexus 700" "the owner of /var/lib/nexus"

step units
if command -v systemd-analyze >/dev/null; then
	# It knows nothing of the man pages of a chroot; all else that it says is a fault.
	said=$(systemd-analyze verify --man=no /usr/lib/systemd/system/nexusd.service 2>&1; XDG_RUNTIME_DIR=/tmp systemd-analyze verify --man=no --user /usr/lib/systemd/user/nexus-*.service 2>&1) || { echo "$said"; exit 1; }
	same "$(echo "$said" | grep -c 'nexus' || true)" 0 "what systemd-analyze says of the units"
else
	echo "skipped: no systemd-analyze"
fi

step manual
if command -v man >/dev/null; then
	for page in nexusd ledgerctl ledgerctl-watch; do
		said=$(MANWIDTH=100 man --warnings "$page" 2>&1 >/tmp/page)
		same "$said" "" "what man says of $page"
		grep -q "$page" /tmp/page
	done
else
	echo "skipped: no man"
fi
bash -n /usr/share/bash-completion/completions/ledgerctl

step start
start
as ledgerctl doctor
as ledgerctl import transcript.jsonl
sessions=$(as ledgerctl sessions --json)
[ -n "$sessions" ]
as ledgerctl verify

step upgrade to "$(version new.deb)"
echo '# a line of the administrator' >>/etc/nexus/nexusd.toml
dpkg -i new.deb
same "$(nexusd --version)" "nexusd $(version new.deb)" "nexusd --version"
same "$(tail -1 /etc/nexus/nexusd.toml)" '# a line of the administrator' "the last line of the configuration"
stop
start
grep -q "\"version\":\"$(version new.deb)\"" /tmp/ready
same "$(as ledgerctl sessions --json)" "$sessions" "the list of sessions after the upgrade"
as ledgerctl verify
stop

step purge
before=$(cd /var/lib/nexus && find . -type f | sort | xargs -d '\n' sha256sum)
dpkg --purge nexus
same "$(cd /var/lib/nexus && find . -type f | sort | xargs -d '\n' sha256sum)" "$before" "the data after the purge"
for gone in /usr/bin/nexusd /usr/bin/ledgerctl /etc/nexus /usr/lib/systemd/system/nexusd.service /usr/share/doc/nexus; do
	[ ! -e "$gone" ] || { echo "FAIL: $gone is there after the purge"; exit 1; }
done

step install again
dpkg -i new.deb
start
same "$(as ledgerctl sessions --json)" "$sessions" "the list of sessions after a new installation"
stop
step passed
