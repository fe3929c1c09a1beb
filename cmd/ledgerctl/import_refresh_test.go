package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/watch"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/transcript"
)

// exchange is a question and its answer, which have the ids and the times of number n.
type exchange struct {
	n      int
	answer string
}

func exchanges(answers ...string) (out []exchange) {
	for i, a := range answers {
		out = append(out, exchange{i, a})
	}
	return out
}

// claudeSession is a session of Claude Code. The id and the time of a line do not depend on
// what it says.
func claudeSession(id string, of ...exchange) string {
	var b strings.Builder
	parent := "null"
	for _, x := range of {
		ask, answer := fmt.Sprintf("%08d-0000-4000-8000-000000000001", x.n), fmt.Sprintf("%08d-0000-4000-8000-000000000002", x.n)
		fmt.Fprintf(&b, `{"type":"user","uuid":%q,"parentUuid":%s,"sessionId":%q,"version":"2.1.120","cwd":"/w","timestamp":"2025-12-09T%02d:00:00Z","message":{"role":"user","content":"question %d"}}`+"\n", ask, parent, id, x.n, x.n)
		fmt.Fprintf(&b, `{"type":"assistant","uuid":%q,"parentUuid":%q,"sessionId":%q,"version":"2.1.120","cwd":"/w","timestamp":"2025-12-09T%02d:00:10Z","message":{"id":"msg_%d","role":"assistant","model":"m","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":2}}}`+"\n", answer, ask, id, x.n, x.n, x.answer)
		parent = fmt.Sprintf("%q", answer)
	}
	return b.String()
}

// refresher imports one file, again and again.
type refresher struct {
	*testing.T
	c    *client.Client
	file string
}

func newRefresher(t *testing.T) *refresher {
	c, stop, err := local.Start(t.Context(), newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}).Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop() })
	return &refresher{t, c, filepath.Join(t.TempDir(), "session.jsonl")}
}

func (r *refresher) write(text string) {
	r.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// older makes an older reader that of a session, which may read anything otherwise.
func (r *refresher) older(id turns.ID) {
	r.Helper()
	var set api.SetSession
	set.Meta = turns.Raw(`{"source":"claude-code","reader":{"format":"claude-code","version":0}}`)
	if _, err := r.c.Set(r.Context(), id, set); err != nil {
		r.Fatal(err)
	}
}

func (r *refresher) read(refresh bool) *tally.Report {
	r.Helper()
	im := transcripts.Importer{Client: r.c, Format: "auto", Final: true, Refresh: refresh}
	rep, err := im.File(r.Context(), r.file)
	if err != nil {
		r.Fatal(err)
	}
	return rep
}

// listed returns the answers of the sessions of a list, by session.
func (r *refresher) listed(all bool) map[turns.ID]string {
	r.Helper()
	out := make(map[turns.ID]string)
	for s, err := range r.c.ListSessions(r.Context(), api.ListSessions{Superseded: all}) {
		if err != nil {
			r.Fatal(err)
		}
		var said []string
		for t, err := range r.c.Turns(r.Context(), s.ID, api.ListTurns{Full: true}) {
			if err != nil {
				r.Fatal(err)
			}
			said = append(said, t.Response.Parts[0].Content)
		}
		out[s.ID] = strings.Join(said, " ")
	}
	return out
}

func (r *refresher) only() (turns.ID, string) {
	r.Helper()
	all := r.listed(false)
	if len(all) != 1 {
		r.Fatalf("listed: %v", all)
	}
	for id, said := range all {
		return id, said
	}
	return turns.ID{}, ""
}

// What reads differently gets a successor, once. The old session stays, closed, marked and
// out of lists, and the file goes on in the successor, through import and watch.
func TestRefreshMakesASuccessorOfWhatReadsDifferently(t *testing.T) {
	const id = "01234567-89ab-4def-8123-456789abcdef"
	r := newRefresher(t)
	r.write(claudeSession(id, exchanges("one", "two", "three")...))
	first := r.read(false)
	old := first.Sessions[0]
	r.older(old)
	r.write(claudeSession(id, exchanges("one", "another", "three")...))
	if again := r.read(false); again.KeptFirst != 1 {
		t.Errorf("the other answer: %+v", again)
	}
	if got := r.read(true); got.Renewed != 1 {
		t.Errorf("refreshed: %+v", got)
	}
	next, said := r.only()
	if next == old || said != "one another three" {
		t.Errorf("listed is %s: %s", next, said)
	}
	was, err := r.c.Session(t.Context(), old)
	if err != nil || was.SupersededBy != next || was.State != "closed" {
		t.Errorf("the old session: %+v, %v", was, err)
	}
	if all := r.listed(true); all[old] != "one two three" {
		t.Errorf("with all: %v", all)
	}
	for range 2 {
		if got := r.read(true); got.Renewed+got.Stored+got.KeptFirst != 0 {
			t.Errorf("refreshed again: %+v", got)
		}
	}
	r.write(claudeSession(id, exchanges("one", "another", "three", "four")...))
	if got := r.read(false); got.Stored != 1 || got.Sessions[0] != next {
		t.Errorf("grown: %+v", got)
	}
	r.write(claudeSession(id, exchanges("one", "another", "three", "four", "five")...))
	if err := r.watch(); err != nil {
		t.Error(err)
	}
	if now, said := r.only(); now != next || said != "one another three four five" {
		t.Errorf("after the watch: %s: %s", now, said)
	}
}

// watch does what "ledgerctl watch --once" does with the file.
func (r *refresher) watch() error {
	cfg := watch.Config{Sources: []watch.Source{{Agent: "claude", Root: filepath.Dir(r.file)}}, State: r.TempDir(), Once: true,
		Connect: watch.Dialed(r.c), Log: r.Logf}
	w, err := watch.New(cfg)
	if err != nil {
		return err
	}
	if err := w.Run(context.WithoutCancel(r.Context())); err != nil {
		return err
	}
	s, err := watch.ReadStatus(cfg.State, cfg.Sources)
	if err == nil && len(s.Failed) > 0 {
		return fmt.Errorf("failed: %+v", s.Failed)
	}
	return err
}

// A file that its agent wrote anew, without turns that the ledger has, goes on in a fork at
// the last turn that both have, or in a session of its own. Nothing of the old is hidden.
func TestRefreshKeepsWhatAFileHasLost(t *testing.T) {
	const id = "11234567-89ab-4def-8123-456789abcdef"
	r := newRefresher(t)
	r.write(claudeSession(id, exchanges("one", "two", "three", "four", "five")...))
	r.read(false)
	now := append(exchanges("one", "two"), exchange{12, "later"})
	r.write(claudeSession(id, now...))
	if got := r.read(true); got.Renewed > 1 {
		t.Errorf("refreshed: %+v", got)
	}
	got := slices.Sorted(maps.Values(r.listed(false)))
	if want := []string{"one two later", "one two three four five"}; !slices.Equal(got, want) {
		t.Errorf("listed: %q, want %q", got, want)
	}
	if got := r.read(true); got.Renewed+got.Stored != 0 {
		t.Errorf("refreshed again: %+v", got)
	}
	r.write(claudeSession(id, append(now, exchange{13, "more"})...))
	if got := r.read(false); got.Stored != 1 || got.KeptFirst != 0 {
		t.Errorf("grown: %+v", got)
	}
}

// A turn that a session and what continues it both have, under ids of their own, is one call,
// also where the source has no id of the response.
func TestCallOfASessionAndItsContinuationCountsOnce(t *testing.T) {
	for name, now := range map[string][]exchange{
		"with a beginning that both have": exchanges("one", "a longer one", "three", "four"),
		"with another beginning":          append([]exchange{{0, "another"}}, exchanges("one", "two", "three", "four")[1:]...),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRefresher(t)
			bare := func(of ...exchange) string {
				text := claudeSession("81234567-89ab-4def-8123-456789abcdef", of...)
				return regexp.MustCompile(`"id":"msg_[0-9]+",`).ReplaceAllString(text, "")
			}
			r.write(bare(exchanges("one", "two", "three")...))
			r.read(false)
			r.write(bare(now...))
			if got := r.read(true); got.Renewed != 1 || len(r.listed(false)) != 2 {
				t.Fatalf("refreshed: %+v; %v", got, r.listed(false))
			}
			if n := countCalls(t, r.c); n != 4 {
				t.Errorf("%d calls, want 4", n)
			}
		})
	}
}

// A session that was imported without a version of the reader is reported. A refresh renews
// the mark of one that reads the same, and nothing else.
func TestSessionOfAnOlderReaderIsReported(t *testing.T) {
	r := newRefresher(t)
	r.write(claudeSession("21234567-89ab-4def-8123-456789abcdef", exchanges("one", "two")...))
	id := r.read(false).Sessions[0]
	mark := func() string {
		s, err := r.c.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]turns.Raw
		if err := json.Unmarshal(s.Meta, &m); err != nil {
			t.Fatal(err)
		}
		return string(m["reader"])
	}
	if got := mark(); got != `{"format":"claude-code","version":2}` {
		t.Errorf("reader: %s", got)
	}
	if got := r.read(false); got.Older != 0 {
		t.Errorf("by the present reader: %+v", got)
	}
	var set api.SetSession
	set.Meta = turns.Raw(`{"source":"claude-code"}`)
	if _, err := r.c.Set(t.Context(), id, set); err != nil {
		t.Fatal(err)
	}
	if got := r.read(false); got.Older != 1 || got.KeptFirst != 0 {
		t.Errorf("without a version: %+v", got)
	}
	if got := r.read(true); got.Same != 1 || got.Renewed != 0 || mark() == "" {
		t.Errorf("refreshed: %+v, %s", got, mark())
	}
	if got := r.read(false); got.Older != 0 || got.Stored != 0 {
		t.Errorf("after that: %+v", got)
	}
}

// A watch of a file that was written anew says what it could not store, each time, until a
// refresh has stored it.
func TestWatchOfARewrittenFileFailsUntilARefresh(t *testing.T) {
	const id = "51234567-89ab-4def-8123-456789abcdef"
	r := newRefresher(t)
	state := t.TempDir()
	once := func() (failed int) {
		cfg := watch.Config{Sources: []watch.Source{{Agent: "claude", Root: filepath.Dir(r.file)}}, State: state, Once: true, Connect: watch.Dialed(r.c), Log: t.Logf}
		w, err := watch.New(cfg)
		if err == nil {
			err = w.Run(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := watch.ReadStatus(cfg.State, cfg.Sources)
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Failed)
	}
	r.write(claudeSession(id, exchanges("one", "two")...))
	if n := once(); n != 0 {
		t.Fatalf("%d failed", n)
	}
	r.write(claudeSession(id, exchanges("one", "a longer one", "three")...))
	for range 2 {
		if n := once(); n != 1 {
			t.Errorf("written anew: %d failed", n)
		}
	}
	if got := r.read(true); got.Renewed != 1 {
		t.Errorf("refreshed: %+v", got)
	}
	r.write(claudeSession(id, exchanges("one", "a longer one", "three", "four")...))
	if n := once(); n != 0 {
		t.Errorf("after the refresh: %d failed", n)
	}
	// The reader is the same: what the file no longer has stays in lists.
	if got := slices.Sorted(maps.Values(r.listed(false))); !slices.Equal(got, []string{"one a longer one three four", "one two three"}) {
		t.Errorf("listed: %q", got)
	}
}

// A report does not grow with what it reports.
func TestReportOfAMillionLossesIsBounded(t *testing.T) {
	var sum tally.Report
	for i := range 1000 {
		var one tally.Report
		for j := range 1000 {
			one.Losses = append(one.Losses, transcript.Loss{Line: j + 1, Kind: "skipped", Reason: fmt.Sprintf("reason %d", i*j%3000)})
		}
		sum.Add(&one)
	}
	n := 0
	for _, l := range sum.Losses {
		n += l.Count
	}
	if len(sum.Losses) > 1001 || n != 1_000_000 {
		t.Errorf("%d lines, %d losses", len(sum.Losses), n)
	}
}

// Answers of the same words are answers of their own: a file that has lost one of them, though it
// still has another, hides nothing.
func TestRefreshKeepsEqualAnswersThatAFileHasLost(t *testing.T) {
	r := newRefresher(t)
	task := func(n int) string {
		id := fmt.Sprintf("019ff00c-d668-7081-8000-%012d", n)
		var b strings.Builder
		for _, l := range []string{
			`"event_msg","payload":{"type":"task_started","turn_id":"` + id + `"}`,
			`"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"continue"}]}`,
			`"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}`,
			fmt.Sprintf(`"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"output_tokens":%d},"last_token_usage":{"input_tokens":100,"output_tokens":1}}}`, 100*n, n),
			`"event_msg","payload":{"type":"task_complete","turn_id":"` + id + `"}`,
		} {
			fmt.Fprintf(&b, `{"timestamp":"2026-08-11T09:00:%02dZ","type":%s}`+"\n", n, l)
		}
		return b.String()
	}
	header := `{"timestamp":"2026-08-11T09:00:00Z","type":"session_meta","payload":{"id":"019ff00c-d280-7e21-8000-0000000000aa","cwd":"/w"}}` + "\n"
	r.write(header + task(1) + task(2) + task(3))
	r.read(false)
	r.write(header + task(2) + task(3) + task(4))
	if got := r.read(false); got.Stored != 1 {
		t.Errorf("grown, without its beginning: %+v", got)
	}
	for range 2 {
		if got := r.read(true); got.Renewed+got.Stored != 0 {
			t.Errorf("refreshed: %+v", got)
		}
	}
	if n := countCalls(t, r.c); n != 4 || len(r.listed(false)) != 1 {
		t.Errorf("%d calls, want 4; %v", n, r.listed(false))
	}
}

// What a file lacks of its session is in the report of that file, and not in that of the next.
func TestRefreshReportsWhatAFileLacksOnce(t *testing.T) {
	r := newRefresher(t)
	r.write(claudeSession("91234567-89ab-4def-8123-456789abcdef", exchanges("one", "two", "three words", "four")...))
	r.read(false)
	im := transcripts.Importer{Client: r.c, Format: "auto", Final: true, Refresh: true}
	lacks := func(text string) (n int) {
		r.write(text)
		rep, err := im.File(t.Context(), r.file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range rep.Losses {
			if strings.Contains(l.Reason, "has less of this session") {
				n++
			}
		}
		return n
	}
	if n := lacks(claudeSession("91234567-89ab-4def-8123-456789abcdef", exchanges("one", "two", "three")...)); n != 1 {
		t.Fatalf("an older copy: %d losses, want 1", n)
	}
	if n := lacks(claudeSession("a1234567-89ab-4def-8123-456789abcdef", exchange{12, "later"})); n != 0 {
		t.Errorf("the next file: %d losses of the one before", n)
	}
}
