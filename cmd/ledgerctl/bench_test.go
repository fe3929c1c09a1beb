package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/bench"
	"nexus/turns"
)

// The benchmark starts itself as its servers, so it needs the built command.
func TestBenchMeasuresThreeSystems(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "ledgerctl")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	cmd := exec.Command(bin, "bench", "--json", "--quiet", "--writers", "3", "--agents", "2", "--seconds", "0.2", "--rounds", "2", "--dir", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got struct {
		bench.Load
		Systems []bench.Measured `json:"systems"`
	}
	if err := turns.DecodeJSON(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Systems) != 3 || got.Writers != 3 || got.Agents != 2 {
		t.Fatalf("%+v", got)
	}
	for _, m := range got.Systems {
		if m.Appends == 0 || m.Rate <= 0 || m.P50 <= 0 || m.P99 < m.P50 || m.Disk <= 0 || m.Relative <= 0 {
			t.Errorf("%+v", m)
		}
		if server := m.System != "pebble"; server && (m.CPU <= 0 || m.Fsyncs <= 0 || m.Fsyncs > 2) {
			t.Errorf("%s: CPU %v, fsyncs %v", m.System, m.CPU, m.Fsyncs)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestBenchRefusesWhatItCannotDo(t *testing.T) {
	for _, flag := range []string{"--writers=0", "--agents=0", "--turn-bytes=0", "--rounds=0", "--seconds=0"} {
		var out, errs strings.Builder
		if code := run(t.Context(), []string{"bench", flag}, strings.NewReader(""), &out, &errs); code != 2 || !strings.Contains(errs.String(), "at least 1") {
			t.Errorf("%s: exit %d, %s", flag, code, errs.String())
		}
	}
}
