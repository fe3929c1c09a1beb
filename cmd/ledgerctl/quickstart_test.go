package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A transcript of large turns goes into the second ledger in requests that its
// server takes: fifty of these turns are more than its messages may hold.
func TestQuickstartOfLargeTurns(t *testing.T) {
	const turns, size = 60, 200_000
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
