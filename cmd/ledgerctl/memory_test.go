package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"nexus/cmd/nexusd/daemon"
	"nexus/ledger/api"
)

// The list of the operator has memories of all agents. A verb that looks for one of them
// among those of main says whose it is.
func TestMemoryOfAnotherAgentIsHintedAt(t *testing.T) {
	d, err := daemon.Open(t.Context(), daemon.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	nc, err := api.Dial(d.ClientURL(), d.Credentials().Operator)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := api.NewClient(nc, "default", "ada").SaveMemory(t.Context(), api.SaveMemory{Text: "The build needs Go 1.26.", Kind: "semantic"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"withdraw " + short(m.ID), 4, "of agent ada: --agent"},
		{"withdraw " + m.ID.String(), 4, "of agent ada: --agent"},
		{"promote " + short(m.ID) + " --visibility all", 4, "of agent ada: --agent"},
		{"promote " + m.ID.String(), 4, "of agent ada: --agent"},
		{"withdraw ZZZZZZZZ", 4, "memory list shows"},
		{"withdraw " + short(m.ID) + " --agent ada", 0, ""},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"memory"}, strings.Fields(c.args)...)
		args = append(args, "--server", d.ClientURL(), "--creds", d.Credentials().Operator)
		if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("memory %s: exit status %d, want %d; it says %q, want %q", c.args, code, c.code, errs.String(), c.want)
		}
	}
}
