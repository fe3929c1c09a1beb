package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// conversation is chat JSON of a conversation with an id ("": none) and a number of answers, which begins with a text.
func conversation(id, begin string, answers int) string {
	var b strings.Builder
	if id != "" {
		fmt.Fprintf(&b, `{"id":%q,"messages":`, id)
	}
	b.WriteByte('[')
	for i := range answers {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%s %d"},{"role":"assistant","content":"answer %d"}`, begin, i, i)
	}
	b.WriteByte(']')
	if id != "" {
		b.WriteByte('}')
	}
	return b.String() + "\n"
}

func startLedger(t *testing.T) *client.Client {
	t.Helper()
	c, stop, err := local.Start(t.Context(), newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}).Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return c
}

// The conversations of a file are stored at the same time, and what is stored and reported is what an import of one step after
// the other stores and reports.
func TestConversationsOfAFileAreImportedAsOneAfterTheOther(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		b.WriteString(conversation(fmt.Sprintf("conversation-%04d", i), "question", 3+i%5))
		if i%8 == 0 {
			b.WriteString(conversation("", fmt.Sprint("log ", i), 2)) // a log of requests, each with what was before
			b.WriteString(conversation("", "of one", 1+i/8))          // of a log whose requests stand apart
			b.WriteString(conversation("", fmt.Sprint("log ", i), 4))
		}
	}
	b.WriteString(conversation("conversation-0003", "question", 9)) // a longer copy
	b.WriteString(`{"messages":[{"role":"user","content":"of one 0"},{"role":"assistant","content":"answer 0"},{"role":"user","content":"else"},{"role":"assistant","content":"a fork"}]}` + "\n")
	text := b.String()
	name := filepath.Join(t.TempDir(), "conversations.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stores := func(c *client.Client, name string) (*tally.Report, []string) {
		im := transcripts.Importer{Client: c, Format: "auto", Final: true, Stdin: strings.NewReader(text)}
		r, err := im.File(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		var stored []string
		for _, s := range r.Sessions {
			for x, err := range c.Turns(t.Context(), s, api.ListTurns{}) {
				if err != nil {
					t.Fatal(err)
				}
				stored = append(stored, fmt.Sprint(s, " ", x.ID, " ", x.Depth, " ", x.Parent))
			}
		}
		r.File = ""
		return r, stored
	}
	c := startLedger(t)
	got, gotTurns := stores(c, name)
	want, wantTurns := stores(startLedger(t), "-") // a stream is read step by step
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(tally.Report{})); d != "" {
		t.Errorf("reports (-one after the other +at the same time):\n%s", d)
	}
	if d := cmp.Diff(wantTurns, gotTurns); d != "" || len(gotTurns) < 200 || got.Forks == 0 {
		t.Errorf("%d turns, %d forks (-one after the other +at the same time):\n%s", len(gotTurns), got.Forks, d)
	}
	again, _ := stores(c, name)
	if again.Stored != 0 || again.Existing != want.Stored+want.Existing {
		t.Errorf("again: %d stored, %d existing; want 0, %d", again.Stored, again.Existing, want.Stored+want.Existing)
	}
}

// Where a conversation can't be stored, those before it are stored to their ends, and the import names the first fault.
func TestAFaultInAConversationEndsTheImportBehindThoseBeforeIt(t *testing.T) {
	c := startLedger(t)
	name := filepath.Join(t.TempDir(), "conversations.jsonl")
	imports := func(ctx context.Context, answers int) (*tally.Report, error) {
		var b bytes.Buffer
		for i := range 20 {
			b.WriteString(conversation(fmt.Sprintf("conversation-%04d", i), "question", answers))
		}
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		im := transcripts.Importer{Client: c, Format: "auto", Final: true}
		return im.File(ctx, name)
	}
	first, err := imports(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{7, 12} {
		if _, err := c.Close(t.Context(), first.Sessions[i], api.CloseSession{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = imports(t.Context(), 30)
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.Closed || !strings.Contains(refused.Message, first.Sessions[7].String()) {
		t.Errorf("%v; want that session %s is closed", err, first.Sessions[7])
	}
	for i, s := range first.Sessions {
		n := countTurns(t, c, s)
		if want := 30; i < 7 && n != want || (i == 7 || i == 12) && n != 2 {
			t.Errorf("session %d has %d turns", i, n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := imports(ctx, 31); !errors.Is(err, context.Canceled) || r != nil && r.Stored > 0 {
		t.Errorf("a stopped import: %+v, %v", r, err)
	}
}

func countTurns(t *testing.T, c *client.Client, session turns.ID) (n int) {
	t.Helper()
	for _, err := range c.Turns(t.Context(), session, api.ListTurns{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
