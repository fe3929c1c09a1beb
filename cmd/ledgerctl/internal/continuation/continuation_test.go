package continuation

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/follow"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api/client"
)

// A continued transcript is the watch's to bring back, if one runs that follows its folder.
func TestContinueKnowsAWatchThatRuns(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	e := cli.New(&terminal.Terminal{})
	e.Server, e.Tenant = "nats://127.0.0.1:4222", "default"
	file := filepath.Join(home, ".claude", "projects", "-w", "a.jsonl")
	if isWatched(e, file) {
		t.Error("watched, and no watch ran ever")
	}
	state, err := follow.StateFolder("watch")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := follow.Sources(nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := watch.New(watch.Config{Sources: sources, State: state, Ledger: "nats://127.0.0.1:4222 default/main", Connect: func(ctx context.Context) (*client.Client, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for !isWatched(e, file) {
		select {
		case err := <-done:
			t.Fatal("the watch ended: ", err)
		default:
			runtime.Gosched()
		}
	}
	if isWatched(e, filepath.Join(home, "elsewhere.jsonl")) {
		t.Error("a file in no folder of the watch is watched")
	}
	cancel()
	<-done
	if isWatched(e, file) {
		t.Error("watched after the watch ended")
	}
}
