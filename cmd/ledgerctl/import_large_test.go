package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/ledgerctl/internal/export"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

var largeParts = flag.Bool("large", false, "import results of 30, 33 and 100 MiB")

// randomWords returns n bytes of text that does not compress away.
func randomWords(n int) string {
	r, b := rand.New(rand.NewPCG(uint64(n), 1)), make([]byte, 0, n+32)
	for len(b) < n {
		b = fmt.Appendf(b, "%016x ", r.Uint64())
	}
	return string(b[:n])
}

// largeTranscript is a transcript whose second turn has a tool's result of content.
func largeTranscript(content string) string {
	return piTranscript("a") + `{"type":"message","id":"a3","parentId":"a2a","timestamp":"2025-12-09T00:55:00Z","message":{"role":"user","content":"read it"}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2025-12-09T00:55:01Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"cat","arguments":{"n":1}}]}}
{"type":"message","id":"a5","parentId":"a4","timestamp":"2025-12-09T00:55:02Z","message":{"role":"toolResult","toolCallId":"c","toolName":"cat","content":"` + content + `"}}
{"type":"message","id":"a6","parentId":"a5","timestamp":"2025-12-09T00:55:03Z","message":{"role":"assistant","content":"read"}}
{"type":"message","id":"a7","parentId":"a6","timestamp":"2025-12-09T00:56:00Z","message":{"role":"user","content":"next"}}
{"type":"message","id":"a8","parentId":"a7","timestamp":"2025-12-09T00:56:01Z","message":{"role":"assistant","content":"ok"}}
`
}

// A tool's result that is larger than a message is imported, and again without storing
// anything; it comes back byte for byte, from this ledger and from one that imported its export.
// Every policy elides it, or says that it can't: no context has more than a fraction of it.
func TestImportOfALargeResult(t *testing.T) {
	sizes := []int{9 << 20}
	if *largeParts {
		sizes = []int{30 << 20, 33 << 20, turns.MaxPart - 2} // two quotes make it the largest part
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			ctx, e := t.Context(), newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
			c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			began := time.Now()
			step := func(what string) {
				t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
				began = time.Now()
			}
			words := randomWords(size)
			file := filepath.Join(t.TempDir(), "large.jsonl")
			if err := os.WriteFile(file, []byte(largeTranscript(words)), 0o600); err != nil {
				t.Fatal(err)
			}
			step("write")
			im := transcripts.Importer{Client: c, Format: "auto", Final: true}
			r, err := im.File(ctx, file)
			if err != nil || r.Stored < 4 {
				t.Fatalf("%+v, %v", r, err)
			}
			step("import")
			if again, err := im.File(ctx, file); err != nil || again.Stored != 0 || again.KeptFirst != 0 {
				t.Errorf("again: %+v, %v", again, err)
			}
			step("import again")
			session := r.Sessions[0]
			checkResult(t, c, session, words)
			step("read")
			window := turns.Limits{ContextWindow: 200_000} // without one, autobyteus elides nothing by size
			if _, err := c.Set(ctx, session, api.SetSession{SessionSettings: api.SessionSettings{Limits: &window}}); err != nil {
				t.Fatal(err)
			}
			for _, p := range []string{"balanced", "nexus", "gsv", "spec-008", "autobyteus", "wolffish"} {
				cx, err := c.Context(ctx, session, api.GetContext{Policy: &api.Policy{Name: p}})
				if err != nil {
					if !api.HasCode(err, api.Unprocessable) {
						t.Errorf("%s: %v", p, err)
					}
					t.Logf("%s: %v", p, err)
					continue
				}
				shown, err := turns.EncodeJSON(cx.Messages)
				if err != nil {
					t.Fatal(err)
				}
				if len(shown) > size/2 {
					t.Errorf("%s shows %d bytes of %d", p, len(shown), size)
				}
				step(fmt.Sprintf("%s, %d bytes", p, len(shown)))
			}
			out, stopOther, err := local.Start(ctx, e.Terminal, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer stopOther()
			var exported bytes.Buffer
			if err := export.Events(c.Export(ctx, session), &exported); err != nil {
				t.Fatal(err)
			}
			step("exported")
			into := transcripts.Importer{Client: out, Format: "jsonl", Stdin: &exported}
			if _, err := into.File(ctx, "-"); err != nil {
				t.Fatal(err)
			}
			step("import of the exported")
			checkResult(t, out, session, words)
			for _, c := range []*client.Client{c, out} {
				v, err := c.As(api.Operator).Verify(ctx)
				if err != nil || !v.OK {
					t.Errorf("verify: %+v, %v", v, err)
				}
			}
			step("verify twice")
		})
	}
}

// checkResult checks that the result in a session is words.
func checkResult(t *testing.T, c *client.Client, session turns.ID, words string) {
	t.Helper()
	for x, err := range c.Turns(t.Context(), session, api.ListTurns{Full: true}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range x.Messages {
			for _, p := range m.Parts {
				if p.Type != turns.ToolCallResponse {
					continue
				}
				b, err := c.Content(t.Context(), session, p.Ref)
				if s, ok := turns.Raw(b).Text(); err != nil || !ok || s != words {
					t.Errorf("%d bytes came back, want %d; %v", len(b), len(words), err)
				}
				return
			}
		}
	}
	t.Error("no result")
}
