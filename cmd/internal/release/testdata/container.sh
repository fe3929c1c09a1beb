#!/bin/sh
# Builds the image, runs it as docs/OPERATIONS.md says, and looks at it from inside. TestImage
# runs it as root in a copy of this machine's files, which is thrown away, without a network.
set -eu
cd /nexus-release
. ./common.sh

# vfs, since the copy is an overlay; no control groups and no timer of systemd, which it lacks.
podman() { command podman --log-level fatal --storage-driver vfs "$@"; }
inside() { podman exec -i nexus ledgerctl "$@"; }
start() { podman run -d --name nexus --network none --read-only --cap-drop all --security-opt no-new-privileges --stop-timeout 30 -v nexus:/var/lib/nexus --cgroups=disabled --health-interval=disable nexus:test; }
healthy() {
	for _ in $(seq 600); do
		podman healthcheck run nexus && return 0
		sleep 0.2
	done
	podman logs nexus
	return 1
}

step build
podman build --isolation chroot --format docker -t nexus:test .

step run
start
healthy
same "$(podman inspect -f '{{.Config.User}} {{.Config.StopSignal}}' nexus)" "65532:65532 15" "user and signal"
inside import - <transcript.jsonl
sessions=$(inside sessions --json)
[ -n "$sessions" ]

step stop
began=$(date +%s)
podman stop nexus
[ $(($(date +%s) - began)) -lt 20 ] || { echo "FAIL: it did not end by itself"; exit 1; }
same "$(podman inspect -f '{{.State.ExitCode}}' nexus)" 0 "the exit status"

step a new container with the old volume
podman rm nexus
start
healthy
same "$(inside sessions --json)" "$sessions" "the list of sessions"
inside verify
podman rm --force nexus
step passed
