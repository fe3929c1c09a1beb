package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/turns"
)

// A log of keys that was cut in both copies at the end of a record is sound by itself. The ledger's sessions say what is missing.
func TestKeysThatAreCutAreNamed(t *testing.T) {
	const header, key = 76, 2*36 + 12 + 16 + 32 // docs/FORMAT.md, section 10
	data := t.TempDir()
	d, c := start(t, data)
	first := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, first.ID, 1)
	last := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, last.ID, 1)
	extend(t, c, first.ID, 1) // the last event of the stream has its key
	stop(t, d, c)
	cut := func(at func(size int) int) {
		for _, side := range []string{"a", "b"} {
			name := filepath.Join(data, "keys", side, "0000000000000001.log")
			b := must[[]byte](t)(os.ReadFile(name))
			if err := os.Truncate(name, int64(at(len(b)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut(func(size int) int { return size - key })
	logs := new(bytes.Buffer)
	cfg := config.Config{Data: data, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(logs, nil))}
	d, c = startWith(t, cfg)
	must[*api.Session](t)(c.Session(t.Context(), first.ID))
	report := must[*api.Verified](t)(c.Verify(t.Context(), last.ID))
	if len(report.Problems) == 0 || !strings.Contains(report.Problems[0].Message, last.ID.String()) {
		t.Errorf("verify: %+v", report.Problems)
	}
	stop(t, d, c)
	if n := strings.Count(logs.String(), "keys of sessions are missing"); n != 1 || !strings.Contains(logs.String(), "sessions=1 first="+last.ID.String()) {
		t.Errorf("the log has %d lines of missing keys:\n%s", n, logs)
	}
	cut(func(int) int { return header })
	d, err := Open(t.Context(), cfg)
	if err == nil {
		_ = d.Close(t.Context())
	}
	if !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "nexusd keys") {
		t.Errorf("without any key: %v, want corrupt, and what to do", err)
	}
}
