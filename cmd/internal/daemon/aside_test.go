package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// One session's chain that can't be followed is that session's trouble: the daemon
// stays ready, also after a restart, and its metrics and the verification tell.
func TestAChainSetAsideDoesNotStopTheDaemon(t *testing.T) {
	dir := t.TempDir()
	open := func() (*Daemon, *client.Client) {
		return startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30})
	}
	d, c := open()
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	bad := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: turns.ID{1}, Chain: turns.SessionChain(s.ID), Index: 1, Prev: s.Hash,
		Recorded: 1, Depth: 1, Segment: turns.ID{2}, Halves: 1}
	payload, err := bad.Encode()
	if err != nil {
		t.Fatal(err)
	}
	subject := ledger.SessionSubject("default", s.ID, s.ID)
	last, err := d.storage.Log.Last(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := d.storage.Log.Append(t.Context(), subject, last.Seq, payload)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.storage.Projections.WaitFor(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{"/readyz": "ok", "/metrics": "nexus_chains_set_aside 1"} {
			r, err := http.Get(d.HTTPURL() + path)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(b), want) {
				t.Errorf("%s: %d, %v, without %q: %.300s", path, r.StatusCode, err, want, b)
			}
		}
		if _, err := c.Create(t.Context(), api.CreateSession{}); err != nil {
			t.Errorf("another session: %v", err)
		}
		v, err := c.As(api.Operator).Verify(t.Context())
		if err != nil || v.OK || len(v.Problems) != 1 || v.Problems[0].Session != s.ID || uint64(v.Problems[0].Seq) != seq {
			t.Errorf("verify: %+v, %v", v, err)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, c = open()
	}
}
