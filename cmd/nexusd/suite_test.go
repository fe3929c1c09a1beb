package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/provider/providertest"
	"nexus/cmd/nexusd/internal/faulttest"
)

// suiteFolder has the official compliance suite of Open Responses, with a lock file for
// node. It is beside the project, not in it.
const suiteFolder = root + "/../shared/openresponses"

// suiteDeadline ends a run of the suite that hangs.
const suiteDeadline = 5 * time.Minute

// suiteResult is what the suite says about one of its tests.
type suiteResult struct {
	ID     string   `json:"id"`
	Status string   `json:"status"`
	Errors []string `json:"errors"`
}

// installSuite copies the suite to a folder of the test and installs what it needs. Where
// that can't be, the test is skipped, with the reason.
func installSuite(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(suiteFolder); err != nil {
		t.Skipf("SKIPPED: the official suite of Open Responses is not there: %v", err)
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: the official suite of Open Responses needs %s: %v", tool, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "suite")
	if err := os.CopyFS(dir, os.DirFS(suiteFolder)); err != nil {
		t.Fatal(err)
	}
	// The files may be read-only, and the folders with them.
	if err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode()|0o200)
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), suiteDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: npm can't install what the official suite of Open Responses needs: %v\n%s", err, out)
	}
	return dir
}

// scriptedProviders are one scripted provider of each kind. The model of a kind has its name.
func scriptedProviders(t *testing.T) (config string, servers map[string]*providertest.Server) {
	t.Helper()
	servers = make(map[string]*providertest.Server)
	var rows strings.Builder
	for _, kind := range providertest.Kinds() {
		servers[kind] = providertest.Start(t, nil)
		rows.WriteString(servers[kind].Row(kind, kind, "model-of-"+kind))
	}
	config = filepath.Join(t.TempDir(), "nexus.toml")
	if err := os.WriteFile(config, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, servers
}

// runSuite runs the suite as its authors do, against the base URL of a nexusd, and returns
// what it says about each test.
func runSuite(t *testing.T, dir, base, model string) (results []suiteResult) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteDeadline)
	defer cancel()
	var log strings.Builder
	cmd := exec.CommandContext(ctx, "bash", "./run.sh", base, model, "--json")
	cmd.Dir, cmd.Stderr = dir, &log
	out, err := cmd.Output() // exit status 1: a test failed, and the output names it
	var report struct {
		Results []suiteResult `json:"results"`
	}
	if e := json.Unmarshal(out, &report); e != nil {
		t.Fatalf("the suite ends with %v and prints no results: %v\n%s%s", err, e, out, &log)
	}
	return report.Results
}

// checkSuite fails t for each test of the suite that did not pass, and unless there are all.
func checkSuite(t *testing.T, results []suiteResult) {
	t.Helper()
	const all = 17
	passed := 0
	for _, r := range results {
		if r.Status == "passed" {
			passed++
			continue
		}
		t.Errorf("%s: %s: %s", r.ID, r.Status, strings.Join(r.Errors, "; "))
	}
	if passed != all {
		t.Errorf("%d tests of the suite passed, want %d", passed, all)
	}
}

func startForSuite(t *testing.T, bin, data, config string) *faulttest.Nexusd {
	t.Helper()
	d, err := faulttest.StartNexusd(t.Context(), os.Stderr, bin, "--data", data, "--config", config, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--log-level", "error", "--max-store", "2000000000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return d
}

// The official suite passes before a provider of each kind, also while all three runs of it
// are at work at once; each request reaches a provider once, and no provider refuses one.
func TestOfficialSuitePasses(t *testing.T) {
	dir := installSuite(t)
	config, servers := scriptedProviders(t)
	d := startForSuite(t, faulttest.Build(t, "."), t.TempDir(), config)
	for _, kind := range providertest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			checkSuite(t, runSuite(t, dir, d.HTTP+"/v1", "model-of-"+kind))
			for _, err := range servers[kind].Refused() {
				t.Error(err)
			}
			prompts := make(map[string]int)
			for _, c := range servers[kind].Calls() {
				prompts[c.Prompt]++
			}
			for prompt, n := range prompts {
				if n > 1 {
					t.Errorf("the provider got %q %d times, want once", prompt, n)
				}
			}
		})
	}
}

// The official suite passes also if nexusd is killed and started again between any two of
// its tests, on the same data: nothing that a test needs is in the memory of the process
// before.
func TestOfficialSuitePassesOverRestarts(t *testing.T) {
	dir := installSuite(t)
	config, servers := scriptedProviders(t)
	bin, data := faulttest.Build(t, "."), t.TempDir()
	each, err := os.ReadFile("testdata/suite/each.ts")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "each.ts"), each, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), suiteDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node_modules/.bin/tsx", "--import", "./ws-polyfill.mjs", "bin/each.ts")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	answer := func(to any) {
		t.Helper()
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, to)
		}
		if err != nil {
			t.Fatalf("the suite says %q: %v", line, err)
		}
	}
	var ids []string
	answer(&ids)
	var results []suiteResult
	for i, id := range ids {
		kind := providertest.Kinds()[i%len(servers)]
		d := startForSuite(t, bin, data, config)
		if _, err := fmt.Fprintf(in, "%s %s/v1 model-of-%s\n", id, d.HTTP, kind); err != nil {
			t.Fatal(err)
		}
		var r suiteResult
		answer(&r)
		results = append(results, r)
		d.Kill()
	}
	checkSuite(t, results)
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	for _, kind := range slices.Sorted(slices.Values(providertest.Kinds())) {
		for _, err := range servers[kind].Refused() {
			t.Error(err)
		}
	}
}
