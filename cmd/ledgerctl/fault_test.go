package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A NATS user who may not act for an agent gets an error at once.
func TestPermissionThatTheServerRefusesExitsWith8(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, Users: []*server.User{
		{Username: "bob", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"nexus.v1.default.bob.>"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	var out, errs bytes.Buffer
	url := strings.Replace(s.ClientURL(), "nats://", "nats://bob:x@", 1)
	if code := run(t.Context(), []string{"--server", url, "--agent", "alice", "sessions"}, strings.NewReader(""), &out, &errs); code != 8 {
		t.Errorf("exit code %d, want 8", code)
	}
	if got := errs.String(); !strings.Contains(got, "nexus.v1.default.alice.session.list") || !strings.Contains(got, "--agent") || strings.Contains(got, "nats:") {
		t.Errorf("it says %q", got)
	}
}
