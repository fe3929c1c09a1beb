#!/bin/sh
# Runs the units of the package of Debian under systemd: that of the system and those of a
# user. TestPackageOfDebian starts a systemd with it, in a copy of this machine's files, which
# is thrown away, with processes, control groups and a network of its own.
set -eu
cd /nexus-release
. ./common.sh

# limits fails unless a process has filters of system calls, and can't gain rights.
limits() {
	same "$(sed -n 's/^NoNewPrivs:\t//p; s/^Seccomp:\t//p' "/proc/$1/status" | tr '\n' ' ')" "1 2 " "NoNewPrivs and Seccomp"
}

pid() { systemctl show -P MainPID nexusd; }

step install "$(version old.deb)"
dpkg -i old.deb
same "$(systemctl is-active nexusd || true)" inactive "nexusd after the installation"

step the unit of the system
systemctl enable --now nexusd
ready
as ledgerctl import transcript.jsonl
sessions=$(as ledgerctl sessions --json)
[ -n "$sessions" ]
limits "$(pid)"
same "$(sed -n 's/^CapBnd:\t//p' "/proc/$(pid)/status")" 0000000000000000 "the bound of capabilities"
same "$(stat -c '%U %a' /var/lib/nexus)" "nexus 700" "the owner of /var/lib/nexus"

step upgrade to "$(version new.deb)"
before=$(pid)
dpkg -i new.deb
ready
[ "$(pid)" != "$before" ] || { echo "FAIL: the old nexusd runs"; exit 1; }
as ledgerctl doctor | grep -F "nexusd and ledgerctl are $(version new.deb)"
same "$(as ledgerctl sessions --json)" "$sessions" "the list of sessions after the upgrade"
as ledgerctl verify

step a configuration that is refused
echo 'no_such_setting = 1' >>/etc/nexus/nexusd.toml
systemctl restart nexusd
sleep 2
same "$(systemctl show -P ActiveState nexusd)" failed "the state of nexusd"
sed -i '$d' /etc/nexus/nexusd.toml
systemctl start nexusd
ready
systemctl stop nexusd

step the units of a user
useradd --create-home alice
home=/home/alice run=/run/user/$(id -u alice)
install -d -o alice -g alice -m 0700 "$run" $home/.claude $home/.claude/projects $home/.claude/projects/p
install -o alice -g alice transcript.jsonl $home/.claude/projects/p/
systemd-run --quiet --unit=alice -p Delegate=yes -p User=alice -p Environment=XDG_RUNTIME_DIR="$run" /lib/systemd/systemd --user --unit=basic.target
user="setpriv --reuid alice --regid alice --clear-groups env -i HOME=$home XDG_RUNTIME_DIR=$run PATH=/usr/bin:/bin"
for _ in $(seq 600); do
	[ -S "$run/systemd/private" ] && break
	sleep 0.2
done
as systemctl --user start nexus-nexusd nexus-watch
ready
for _ in $(seq 600); do
	[ -n "$(as ledgerctl sessions --json)" ] && break
	sleep 0.2
done
[ -n "$(as ledgerctl sessions --json)" ]
as test -d $home/.local/share/nexus/keys
for unit in nexus-nexusd nexus-watch; do
	limits "$(as systemctl --user show -P MainPID $unit)"
done
as systemctl --user stop nexus-watch nexus-nexusd

step purge
systemctl start nexusd
dpkg --purge nexus
same "$(systemctl is-active nexusd || true)" inactive "nexusd after the purge"
[ -d /var/lib/nexus/keys ]
step passed
