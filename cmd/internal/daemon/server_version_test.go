package daemon

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// Files that another version of nats-server wrote are taken after a clean stop only, and then by the
// server: nothing here reads them by the rules of another version.
func TestFilesOfAnotherServerNeedACleanStop(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, folder.MarkFile)
	d, c := start(t, dir)
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 3)
	stop(t, d, c)
	load := func() mark.Mark {
		t.Helper()
		m, _, err := mark.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := load(); m.Server != embed.ServerVersion || m.Closed == nil {
		t.Fatalf("the mark says %q, closed %v", m.Server, m.Closed)
	}
	wroteBy := func(version string, clean bool) {
		t.Helper()
		m := load()
		closed := m.Closed
		k, err := mark.Open(path, m, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		k.SetServer(version)
		if !clean {
			closed = nil
		}
		if err := k.Close(closed); err != nil {
			t.Fatal(err)
		}
	}
	wroteBy("2.0.0", true)
	log := new(lockedBuffer)
	d, c = startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Logger: slog.New(slog.NewTextHandler(log, nil))})
	extend(t, c, s.ID, 1)
	verified(t, c)
	stop(t, d, c)
	if !strings.Contains(log.String(), "another version of nats-server") || load().Server != embed.ServerVersion {
		t.Errorf("the mark says %q; the log:\n%s", load().Server, log)
	}
	wroteBy("2.0.0", false)
	if _, err := Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30}); !errors.Is(err, turns.ErrUnsupported) || !strings.Contains(err.Error(), "2.0.0") {
		t.Errorf("a start on files that were not closed: %v, want unsupported", err)
	}
	if _, err := mend.Repair(t.Context(), mend.RepairConfig{Data: dir}); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("a repair of another version's files: %v, want unsupported", err)
	}
	wroteBy(embed.ServerVersion, false)
	_, c = start(t, dir)
	verified(t, c)
}

// TestTheLinkedServerHasAGoldenFolder: each version of nats-server that was ever linked has a data folder
// in testdata/states, which TestDataFoldersOfEarlierCommitsContinue opens. After an update of it make one
// with TestNewState, and keep the others.
func TestTheLinkedServerHasAGoldenFolder(t *testing.T) {
	archives, err := filepath.Glob("testdata/states/*.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, archive := range archives {
		dir := t.TempDir()
		unpack(t, archive, dir)
		b, err := os.ReadFile(filepath.Join(dir, "data", folder.IdentityFile))
		if err != nil {
			t.Fatal(err)
		}
		var id folder.Identity
		if err := json.Unmarshal(b, &id); err != nil {
			t.Fatal(err)
		}
		if versions = append(versions, id.Server); id.Server == embed.ServerVersion {
			return
		}
	}
	t.Errorf("no folder was written by nats-server %s, only by %v", embed.ServerVersion, versions)
}
