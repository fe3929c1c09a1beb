#!/bin/sh
# Enters a copy of this machine's files and runs a script of /nexus-release there: systemd.sh
# as a service of systemd, others as processes. The tests run it with namespaces of its own;
# nothing outlives them.
#
# enter.sh LAYERS SCRIPT CGROUP
set -e
cd "$1"
if [ -n "$3" ]; then
	echo 0 >"$3/cgroup.procs"
	exec unshare --cgroup sh "$0" "$1" "$2" ""
fi
mount --make-rprivate /
mkdir work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t proc proc proc
mount -t tmpfs -o mode=755 dev dev
mount -t tmpfs run run
mount -t tmpfs tmp tmp
mount -t sysfs -o ro sys sys
# Nodes of its own: a program that changes their owner changes none of the machine's.
while read -r name minor; do
	mknod -m 0666 dev/$name c $minor
done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 pts dev/pts
mount -t tmpfs shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t cgroup2 cgroup sys/fs/cgroup
mkdir -p old
pivot_root . old
umount -l old
[ "$2" = systemd.sh ] || exec env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin sh "/nexus-release/$2" 2>&1
cat >/etc/systemd/system/nexus-release.service <<END
[Service]
Type=oneshot
ExecStart=/bin/sh /nexus-release/$2
StandardOutput=file:/nexus-release/output
StandardError=file:/nexus-release/output
ExecStopPost=/bin/systemctl --no-block exit
END
exec env -i container=nexus-release PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=nexus-release.service --show-status=no
