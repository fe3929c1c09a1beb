package extractive

import (
	"strings"
	"testing"

	"nexus/compactor/summary"
)

func TestOutcomeNamesTheErrorItself(t *testing.T) {
	for _, c := range []struct {
		name, text, want     string
		isError, reads, fail bool
	}{
		{"a CI log", "test\tTests\t2026-04-29T08:18:34.9Z --- FAIL: TestFetch (0.20s)\ntest\tTests\t2026-04-29T08:18:34.9Z     integration_test.go:281: expected update object storage error, got closed\ntest\tTests\t2026-04-29T08:18:35.1Z [test:ci] ERROR task failed",
			"failed: --- FAIL: TestFetch (0.20s); integration_test.go:281: expected update object storage error, got closed", false, false, true},
		{"colors", withoutSequences("\x1b[41m FAIL \x1b[49m src/NavUser.test.tsx > getInitials > empty\n\x1b[31mAssertionError: expected '' to be '??' // Object.is\x1b[39m\n Tests  1 failed | 6 passed (7)"),
			"failed: FAIL src/NavUser.test.tsx > getInitials > empty; AssertionError: expected '' to be '??' // Object.is", false, false, true},
		{"a time in the error", "x509: cannot be used: current time 2026-04-29T08:18:34Z is after 2026-01-01T00:00:00Z",
			"failed: x509: cannot be used: current time 2026-04-29T08:18:34Z is after 2026-01-01T00:00:00Z", true, false, true},
		{"a program's own Output", "error: link failed: no symbol main\nOutput:\nnone", "failed: error: link failed: no symbol main", true, false, true},
		{"exit code in figures", "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\npkg/a.go:3:2: undefined: sync",
			"failed, exit 1: pkg/a.go:3:2: undefined: sync", false, false, true},
		{"a search without a hit", "Process exited with code 1\nOutput:\n", "", false, true, false},
		{"code that was read", "217\tt.Fatalf(\"sync failed: %v\", err)\nFAIL\n3 failed\nmore", "", false, true, false},
		{"all passed", "ok  \tpkg/a\t0.2s\nok  \tpkg/b\t0.3s", "ok pkg/b 0.3s", false, false, false},
		{"none failed", "12 passed, 0 failed", "12 passed, 0 failed", false, false, false},
		{"a short output", "https://example.com/pull/94\n", "https://example.com/pull/94", false, false, false},
	} {
		failed, note := outcome(c.text, c.isError, true, c.reads)
		if failed != c.fail || note != c.want {
			t.Errorf("%s: %v %q, want %v %q", c.name, failed, note, c.fail, c.want)
		}
	}
	if failed, note := outcome("collab spawn failed: agent thread limit reached (max 6)", false, false, false); !failed || note != "failed: collab spawn failed: agent thread limit reached (max 6)" {
		t.Errorf("%v %q", failed, note)
	}
}

func TestFileCountsItsWrites(t *testing.T) {
	patch := `"*** Begin Patch\n*** Update File: a.go\n@@\n-x\n+y\n*** Add File: b.go\n+z\n*** End Patch"`
	got := section(summarize(t, summary.Input{MaxTokens: 600, Halves: []summary.HalfTurn{
		asked(1, "Fix it."),
		answered(2, "", call("1", "Read", `{"file_path":"c.go"}`)), result(3, "1", "package c", false),
		answered(4, "", call("2", "Edit", `{"file_path":"c.go","old_string":"x","new_string":"y"}`)), result(5, "2", "done", false),
		answered(6, "", call("3", "Edit", `{"file_path":"c.go","old_string":"x","new_string":"z"}`)), result(7, "3", "String to replace not found in file.", true),
		answered(8, "", call("4", "Edit", `{"file_path":"c.go","old_string":"y","new_string":"z"}`)), result(9, "4", "done", false),
		answered(10, "", call("5", "apply_patch", patch)), result(11, "5", "done", false),
	}}), progress)
	wants(t, got, "wrote c.go ×2", "patched *** Update File: a.go", "patched *** Add File: b.go")
	if strings.Contains(got, "Begin Patch") || strings.Contains(got, "×3") {
		t.Error(got)
	}
}
