package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/ledger/api"
)

// A transcript of large turns goes into the second ledger in requests that its
// server takes: fifty of these turns are more than its messages may hold.
func TestQuickstartOfLargeTurns(t *testing.T) {
	const turns, size = 52, 170_000
	random := rand.New(rand.NewPCG(1, 2))
	letters := func() string { // does not compress to much less
		b := make([]byte, size)
		for i := range b {
			b[i] = byte('!' + random.IntN(90))
		}
		return strings.NewReplacer(`"`, "q", `\`, "b").Replace(string(b))
	}
	var text strings.Builder
	text.WriteString(`{"id":"large","messages":[`)
	for i := range turns {
		fmt.Fprintf(&text, `{"role":"user","content":"%d %s"},{"role":"assistant","content":"%d"},`, i, letters(), i)
	}
	file := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(file, []byte(strings.TrimSuffix(text.String(), ",")+"]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"quickstart", file}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), "hashes of 2 sessions kept: true") {
		t.Errorf("not copied:\n%s", out.String())
	}
}

// The figures of README.md and the lines of a summary in docs/GUIDE.md are those that the
// commands next to them print.
func TestReadmeFigures(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"quickstart"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	_, line, _ := strings.Cut(out.String(), "\ncompaction ")
	var id, covered, before, after string
	if _, err := fmt.Sscanf(line, "%s %s turns covered, %s → %s tokens", &id, &covered, &before, &after); err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	if want := fmt.Sprintf("%s turns from %s to %s tokens in a window of %s", covered, before, after, prose.Grouped(quickstart.Window)); !strings.Contains(page, want) {
		t.Errorf("README.md does not say %q", want)
	}

	ctx, c := t.Context(), testLedger(t)
	im := transcripts.Importer{Client: c, Stdin: bytes.NewReader(quickstart.Transcript), Format: "auto", Final: true}
	rep, err := im.File(ctx, "-")
	if err != nil {
		t.Fatal(err)
	}
	s, err := local.Largest(ctx, c, rep.Sessions)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Compact(ctx, s.ID, api.RunCompaction{})
	if err != nil {
		t.Fatal(err)
	}
	k := reply.Compaction.Compaction
	if want := fmt.Sprintf("%d turns covered by a summary (%s), %s → %s tokens", k.Covered, k.Tier, prose.Grouped(k.TokensBefore), prose.Grouped(k.TokensAfter)); !strings.Contains(page, want) {
		t.Errorf("README.md does not say %q", want)
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "GUIDE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(guide), "```text\nTASK\n")
	block, _, ended := strings.Cut(block, "```")
	if !ok || !ended {
		t.Fatal("GUIDE.md shows no summary")
	}
	for line := range strings.Lines(block) {
		if !strings.Contains("\n"+*k.Summary+"\n", "\n"+line) {
			t.Errorf("the summary has no line %q", line)
		}
	}
}

// The rows of compare in docs/GUIDE.md are those that its command prints for the
// shipped transcript.
func TestGuideComparison(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "GUIDE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\npolicy      calls")
	block, _, ok := strings.Cut(rest, "\n```")
	if !ok {
		t.Fatal("GUIDE.md shows no comparison")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "session.jsonl"), quickstart.Transcript, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"compare", dir, "--window", "40000"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	rows := 0
	for line := range strings.Lines("policy      calls" + block + "\n") {
		if line == "…\n" {
			continue
		}
		if rows++; !strings.Contains("\n"+out.String(), "\n"+line) {
			t.Errorf("compare does not print %q", line)
		}
	}
	if rows < 3 {
		t.Errorf("GUIDE.md has %d rows of compare", rows)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
