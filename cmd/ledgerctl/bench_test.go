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
	bin := built(t)
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

// built builds the command.
func built(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "ledgerctl")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return bin
}

func TestBenchAgentsMeasuresEachPart(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(built(t), "bench", "agents", "--json", "--quiet", "--agents", "2", "--depth", "3,12", "--turns", "2", "--sessions", "5", "--awake", "3", "--preamble", "--seconds", "0.1", "--rounds", "2", "--dir", dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got bench.AgentsResult
	if err := turns.DecodeJSON(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Depth) != 2 || len(got.Orders) != 3 || len(got.Opens) != 3 || len(got.Verbs) != 15 {
		t.Fatalf("%s", out)
	}
	for i, w := range append(got.Depth, got.Orders...) {
		if w.Turns == 0 || (i < 2 && w.Turns != 8) || w.ContextP50 <= 0 || w.AppendP50 <= 0 || w.TurnP99 < w.TurnP50 || w.CPU <= 0 || w.Sent <= 0 || w.Wrote <= 0 || w.Fsyncs <= 0 {
			t.Errorf("%+v", w)
		}
	}
	for _, o := range got.Opens {
		if o.Rate <= 0 || o.P50 <= 0 || o.Append <= 0 || o.CPU <= 0 {
			t.Errorf("%+v", o)
		}
	}
	for _, v := range got.Verbs {
		if v.P50 <= 0 || v.CPU <= 0 || v.Relative <= 0 || v.Sent <= 0 {
			t.Errorf("%+v", v)
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
	for _, flag := range []string{"--agents=0", "--depth=0,5", "--turns=0", "--rounds=0", "--seconds=0", "--awake=0"} {
		var out, errs strings.Builder
		if code := run(t.Context(), []string{"bench", "agents", flag}, strings.NewReader(""), &out, &errs); code != 2 || !strings.Contains(errs.String(), "at least 1") {
			t.Errorf("agents %s: exit %d, %s", flag, code, errs.String())
		}
	}
}
