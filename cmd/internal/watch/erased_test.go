package watch

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// erasedIn erases a session of a ledger.
func erasedIn(t *testing.T, l *ledger, id turns.ID) {
	t.Helper()
	if _, err := l.client.As(api.Operator).Erase(t.Context(), id, api.EraseSession{}); err != nil {
		t.Fatal(err)
	}
}

// namesIn returns where in a folder one of some words stands: in the names of files and in what they hold.
func namesIn(t *testing.T, dir string, words ...string) (where []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := filepath.Base(p)
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += string(b)
		}
		for _, w := range words {
			if strings.Contains(text, w) {
				where = append(where, filepath.Base(p)+": "+w)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// watched writes transcripts of some agents into a home, and returns their paths.
func watched(t *testing.T, home string, agents ...string) (paths []string) {
	t.Helper()
	for i, agent := range agents {
		path, lines := transcriptFile(t, agent, i+1, 2)
		paths = append(paths, filepath.Join(home, path))
		appendTo(t, paths[i], strings.Join(lines, ""))
	}
	return paths
}

// A watch that is running drops the entry of a transcript when it hears that its session was erased: it reads it no
// more, and what it keeps names neither. Others are followed as before, and so is another file of the name.
func TestAWatchReadsAndNamesNoErasedTranscript(t *testing.T) {
	for _, agent := range []string{"claude", "codex", "pi", "gemini"} {
		t.Run(agent, func(t *testing.T) {
			l, home := openLedger(t), t.TempDir()
			paths := watched(t, home, agent, "claude")
			state := filepath.Join(home, "state")
			r := watchHome(t, l, home, func(c *Config) { c.Log = t.Logf })
			r.untilRead(paths...)
			sessions := r.at(paths[0]).Sessions
			if len(sessions) != 1 || len(r.at(paths[1]).Sessions) != 1 {
				t.Fatalf("the sessions are %v", sessions)
			}
			erasedIn(t, l, sessions[0])
			_, more := transcriptFile(t, agent, 1, 3)
			_, before := transcriptFile(t, agent, 1, 2)
			cut := len(before)
			if agent == "gemini" { // its last line is that of the end
				cut--
			}
			appendTo(t, paths[0], strings.ReplaceAll(strings.Join(more[cut:], ""), `"end"`, `"end again"`))
			r.until("the entry is dropped", func() bool { return len(r.at(paths[0]).Sessions) == 0 && r.at(paths[0]).Size == 0 })
			_, lines := transcriptFile(t, "claude", 2, 3)
			_, had := transcriptFile(t, "claude", 2, 2)
			appendTo(t, paths[1], strings.Join(lines[len(had):], ""))
			r.untilRead(paths[1])
			r.stop()
			if where := namesIn(t, state, filepath.Base(paths[0]), paths[0], sessions[0].String()); len(where) > 0 {
				t.Errorf("the state has %v", where)
			}
			checkStored(t, l.client, paths[1])

			stored := total(r.w.state)
			if again := once(t, l, home); total(again) != stored || again.Files[paths[0]] != nil {
				t.Errorf("the next watch stored %d events, and has %+v", total(again)-stored, again.Files[paths[0]])
			}
			s, err := ReadStatus(state, configOf(l, home).Sources)
			if err != nil {
				t.Fatal(err)
			}
			erased, behind := 0, 0
			for _, x := range s.Sources {
				erased, behind = erased+x.Erased, behind+x.Behind
			}
			if erased != 1 || behind != 0 || len(s.Failed) != 0 {
				t.Errorf("the status: %d erased, %d behind, failed: %v", erased, behind, s.Failed)
			}
			if plan, err := Plan(configOf(l, home)); err != nil || len(plan) != 0 {
				t.Errorf("it would read %v, %v", plan, err)
			}
			// Another file takes its name.
			_, other := transcriptFile(t, agent, 77, 2)
			write(t, paths[0]+".new", strings.Join(other, ""))
			if err := os.Rename(paths[0]+".new", paths[0]); err != nil {
				t.Fatal(err)
			}
			if again := once(t, l, home); again.Files[paths[0]] == nil || again.Files[paths[0]].Stored == 0 {
				t.Errorf("another file of the name has %+v", again.Files[paths[0]])
			}
			checkStored(t, l.client, paths[0])
		})
	}
}

// Who erases takes the session out of the state: itself where no watch runs, else the watch does it, though nobody
// writes to the transcript. A state of another ledger stays as it is.
func TestASessionThatWasErasedIsTakenOutOfTheState(t *testing.T) {
	for _, tc := range []struct {
		name    string
		running bool
		polling bool
		other   bool
	}{{name: "no watch runs"}, {name: "a watch runs", running: true}, {name: "one without notifications", running: true, polling: true}, {name: "of another ledger", other: true}} {
		t.Run(tc.name, func(t *testing.T) {
			l, home := openLedger(t), t.TempDir()
			paths := watched(t, home, "claude", "codex")
			state := filepath.Join(home, "state")
			var r *running
			if tc.running {
				r = watchHome(t, l, home, func(c *Config) { c.Polling = tc.polling })
				r.untilRead(paths...)
			} else {
				once(t, l, home)
			}
			if r != nil { // what is on the disk
				r.stop()
				r = watchHome(t, l, home, func(c *Config) { c.Polling = tc.polling })
				r.untilRead(paths...)
			}
			before, err := loadState(state)
			if err != nil {
				t.Fatal(err)
			}
			id := before.Files[paths[0]].session()
			if got, err := EntriesOf(state, id); err != nil || !slices.Equal(got.Files, paths[:1]) || got.Ledger != l.url {
				t.Errorf("the state has %+v, %v", got, err)
			}
			cfg := configOf(l, home)
			if tc.other {
				cfg.Ledger = "another"
			}
			for range 2 { // it can be called again
				erasedIn(t, l, id)
				done, err := Forget(t.Context(), cfg, id)
				if err != nil || done == tc.running {
					t.Fatalf("forget: %v, %v", done, err)
				}
				if r != nil {
					r.until("the request is gone", func() bool { return IsForgotten(state, id) })
				}
			}
			if r != nil {
				r.stop()
			}
			where := namesIn(t, state, filepath.Base(paths[0]), id.String())
			if tc.other {
				if len(where) != 2 || namesIn(t, requestsDir(state), id.String()) != nil {
					t.Errorf("of another ledger the state has %v", where)
				}
				return
			}
			after, err := loadState(state)
			if err != nil || len(where) > 0 || after.Files[paths[1]] == nil {
				t.Errorf("the state has %v, %v, of the other file %+v", where, err, after.Files[paths[1]])
			}
			if !tc.running && !after.Saved.Equal(before.Saved) {
				t.Error("the watch is said to have run since")
			}
			stored := total(after)
			if again := once(t, l, home); total(again) != stored || again.Files[paths[0]] != nil {
				t.Errorf("the next watch stored %d events, and has %+v", total(again)-stored, again.Files[paths[0]])
			}
		})
	}
}

// Crash states of a request: made and not taken, taken and not removed, and a state that was being saved.
func TestARequestToForgetIsTakenByTheNextWatch(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	paths := watched(t, home, "claude")
	state := filepath.Join(home, "state")
	id := once(t, l, home).Files[paths[0]].session()
	text, err := os.ReadFile(stateFile(state))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(state, ".state.json.123"), string(text[:len(text)/2]))
	erasedIn(t, l, id)
	for range 2 {
		if err := Ask(state, id); err != nil {
			t.Fatal(err)
		}
		if s := once(t, l, home); s.Files[paths[0]] != nil {
			t.Errorf("it has %+v", s.Files[paths[0]])
		}
		if where := namesIn(t, state, filepath.Base(paths[0]), id.String()); len(where) > 0 {
			t.Errorf("the state has %v", where)
		}
	}
}

// A file that holds another session too is followed, and the state names that one alone, until it is erased as well.
func TestAFileWithAnotherSessionIsFollowed(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	path := watched(t, home, "pi")[0]
	appendTo(t, path, `{"type":"message","id":"q9","parentId":"p0","timestamp":"2026-04-11T15:00:00Z","message":{"role":"user","content":"another way"}}
{"type":"message","id":"p9","parentId":"q9","timestamp":"2026-04-11T15:00:01Z","message":{"role":"assistant","content":"an answer"}}
`)
	state := filepath.Join(home, "state")
	sessions := once(t, l, home).Files[path].Sessions
	if len(sessions) != 2 {
		t.Fatalf("the file holds %v", sessions)
	}
	fork, root := sessions[1], sessions[0]
	if s, err := l.client.Session(t.Context(), fork); err != nil || s.ForkedFrom == nil {
		t.Fatalf("the newest is no fork: %+v, %v", s, err)
	}
	erasedIn(t, l, fork)
	if done, err := Forget(t.Context(), configOf(l, home), fork); !done || err != nil {
		t.Fatal(done, err)
	}
	if s, err := loadState(state); err != nil || s.Files[path] == nil || !slices.Equal(s.Files[path].Sessions, sessions[:1]) || len(namesIn(t, state, fork.String())) > 0 {
		t.Errorf("the state: %+v, %v", s, err)
	}
	erasedIn(t, l, root)
	appendTo(t, path, `{"type":"message","id":"q10","parentId":"p1","timestamp":"2026-04-11T16:00:00Z","message":{"role":"user","content":"more"}}
{"type":"message","id":"p10","parentId":"q10","timestamp":"2026-04-11T16:00:01Z","message":{"role":"assistant","content":"an answer"}}
{"type":"message","id":"q11","parentId":"p0","timestamp":"2026-04-11T16:00:02Z","message":{"role":"user","content":"a third way"}}
{"type":"message","id":"p11","parentId":"q11","timestamp":"2026-04-11T16:00:03Z","message":{"role":"assistant","content":"an answer"}}
`)
	if s := once(t, l, home); s.Files[path] != nil || len(s.Erased) != 1 {
		t.Errorf("the state: %+v, %v", s.Files[path], s.Erased)
	}
	for s, err := range l.client.Sessions(t.Context()) {
		if err != nil || s.State != turns.Erased.String() {
			t.Errorf("there is a session that is not erased: %+v, %v", s, err)
		}
	}
}

// What is kept beside a turn is not kept of a session that was erased: its folder is not recorded any more.
func TestNothingIsKeptBesideAnErasedTurn(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	path, lines := transcriptFile(t, "pi", 1, 3)
	path = filepath.Join(home, path)
	appendTo(t, path, strings.Join(lines[:5], ""))
	kept := 0
	cfg := configOf(l, home)
	cfg.Closed = func(_ context.Context, _ Closed) Keep {
		return func(_ context.Context, _ turns.Ref) { kept++ }
	}
	d, err := NewDeliverer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Deliver(t.Context(), path); err != nil || kept == 0 {
		t.Fatalf("kept %d times, %v", kept, err)
	}
	before := kept
	erasedIn(t, l, d.w.state.Files[path].session())
	for _, text := range []string{strings.Join(lines[5:], ""), "\n"} {
		appendTo(t, path, text)
		if _, err := d.Deliver(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	if kept != before {
		t.Errorf("kept %d times after the erasure", kept-before)
	}
}

// A transcript that begins as a fork of an erased session repeats what was erased. It is not stored, and the status says why: it is
// another transcript, which nobody erased.
func TestAForkOfAnErasedSessionHasFailed(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	parent := watched(t, home, "claude")[0]
	id := strings.TrimSuffix(filepath.Base(parent), ".jsonl")
	erasedIn(t, l, once(t, l, home).Files[parent].session())
	const fork = "b7a61de1-7e35-5021-bd7b-0f2823809de5"
	_, lines := transcriptFile(t, "claude", 1, 3)
	for i, line := range lines {
		from := ""
		if i < 8 {
			_, uuid, _ := strings.Cut(line, `"uuid":"`)
			uuid, _, _ = strings.Cut(uuid, `"`)
			from = `,"forkedFrom":{"sessionId":"` + id + `","messageUuid":"` + uuid + `"}`
		}
		lines[i] = strings.Replace(line, `"sessionId":"`+id+`"`, `"sessionId":"`+fork+`"`+from, 1)
	}
	path := filepath.Join(filepath.Dir(parent), fork+".jsonl")
	appendTo(t, path, strings.Join(lines, ""))
	cfg := configOf(l, home)
	cfg.Once = true
	for range 2 { // the second one tries it again
		w, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := w.state.Files[path]; st == nil || st.Failed != errOrphaned.Error() || st.Stored != 0 {
			t.Errorf("the fork: %+v", st)
		}
	}
	n := 0
	for _, err := range l.client.Sessions(t.Context()) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("there are %d sessions", n)
	}
}
