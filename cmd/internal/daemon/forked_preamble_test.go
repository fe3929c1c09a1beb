package daemon

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// family is a session with a large preamble and its forks: the first has a copy of it, the second moved it to a blob, and
// those behind it name that.
type family struct {
	t      *testing.T
	dir    string
	d      *Daemon
	c      *client.Client
	words  map[string]string // by place: in the system part, in a tool
	parent turns.ID
	at     turns.ID
	forks  []turns.ID
	gone   []turns.ID // erased, and maybe not everywhere yet
	shown  map[turns.ID]shownContext
}

// shownContext is all that a context shows.
type shownContext struct{ preamble, messages string }

func newFamily(t *testing.T) *family {
	t.Helper()
	f := &family{t: t, dir: t.TempDir(), words: map[string]string{"system": aWord(), "tool": aWord()}, shown: make(map[turns.ID]shownContext)}
	f.start()
	r := api.CreateSession{}
	r.System = &api.System{{Name: "rules", Content: words(1, 20<<10) + f.words["system"] + words(2, 20<<10)}}
	r.Tools = &[]turns.Raw{turns.Raw(fmt.Sprintf(`{"name":"t","description":"%s %s"}`, words(3, 9<<10), f.words["tool"]))}
	r.Limits = &turns.Limits{ContextWindow: 200_000}
	f.parent = must[*api.Session](t)(f.c.Create(t.Context(), r)).ID
	f.at = extend(t, f.c, f.parent, 2).ID
	f.shown[f.parent] = f.show(f.c, f.parent)
	for range 3 {
		f.fork(f.parent, f.at)
	}
	f.fork(f.forks[2], f.at)
	f.check()
	return f
}

func (f *family) start() {
	f.t.Helper()
	f.d, f.c = startWith(f.t, config.Config{Data: f.dir, Listen: "127.0.0.1:0", HTTP: "off", Search: "off", MaxStore: 1 << 30})
}

func (f *family) restart() { f.t.Helper(); stop(f.t, f.d, f.c); f.start() }

// fork forks a session, and notes what it shows.
func (f *family) fork(of, at turns.ID) turns.ID {
	f.t.Helper()
	s := must[*api.Session](f.t)(f.c.Fork(f.t.Context(), of, api.CreateFork{Turn: at}))
	f.forks = append(f.forks, s.ID)
	f.shown[s.ID] = f.show(f.c, s.ID)
	return s.ID
}

func (f *family) show(c *client.Client, s turns.ID) shownContext {
	f.t.Helper()
	got := must[*api.Context](f.t)(c.Context(f.t.Context(), s, api.GetContext{Format: "anthropic"}))
	return shownContext{fmt.Sprintf("%s %s", got.System, got.Tools), fmt.Sprintf("%s", got.Messages)}
}

// check checks that all show what they showed, and that the ledger verifies.
func (f *family) check() {
	f.t.Helper()
	for i, s := range append([]turns.ID{f.parent}, f.forks...) {
		want, there := f.shown[s]
		if !there {
			if got := must[*api.Session](f.t)(f.c.Session(f.t.Context(), s)); got.State != "erased" {
				f.t.Errorf("session %d is %s", i, got.State)
			}
		} else if got := f.show(f.c, s); got != want {
			f.t.Errorf("session %d shows %d and %d bytes, want %d and %d: %.200q", i, len(got.preamble), len(got.messages), len(want.preamble), len(want.messages), got.messages)
		}
	}
	if v := must[*api.Verified](f.t)(f.c.As(api.Operator).Verify(f.t.Context())); !v.OK {
		f.t.Errorf("%+v", v.Problems)
	}
}

// erase erases a session. What the others inherited of it is a notice from then on; their preamble is theirs.
func (f *family) erase(s turns.ID) {
	f.t.Helper()
	must[*api.Receipt](f.t)(f.c.As(api.Operator).Erase(f.t.Context(), s, api.EraseSession{}))
	f.gone = append(f.gone, s)
	delete(f.shown, s)
	for other, was := range f.shown {
		is := f.show(f.c, other)
		if f.shown[other] = is; is.preamble != was.preamble {
			f.t.Errorf("session %s lost its preamble: %d bytes, had %d", other, len(is.preamble), len(was.preamble))
		}
	}
}

// nowhere checks that none of the words is found in the folder, nor opens.
func (f *family) nowhere() {
	f.t.Helper()
	for _, s := range f.gone {
		eraseSession(f.t, f.c, s)
	}
	stop(f.t, f.d, f.c)
	for place, names := range scanned(f.t, f.dir, f.words) {
		f.t.Errorf("%s is found: %v", place, names)
	}
	for place := range openedWords(f.t, f.dir, f.words) {
		f.t.Errorf("%s opens", place)
	}
	f.start()
	f.check()
}

// Forks that share a preamble keep it whatever happens beside: a collection, a start, the end of any of them. When all are
// erased nobody finds it.
func TestForksKeepTheirPreamble(t *testing.T) {
	t.Run("collections and starts", func(t *testing.T) {
		f := newFamily(t)
		must[*api.BlobInfo](t)(f.c.PutBlob(t.Context(), api.PutBlob{Session: f.parent, Data: []byte(words(4, 300_000))}))
		f.restart()
		if out := collectLater(t, f.d, nil); out.Collected == 0 {
			t.Errorf("nothing was collected: %+v", out)
		}
		f.check()
		for range 3 {
			f.fork(f.parent, f.at)
			collectLater(t, f.d, nil)
		}
		f.fork(f.forks[1], f.at)
		f.restart()
		collectLater(t, f.d, nil)
		f.check()
	})
	for name, order := range map[string][]int{"the session first": {0, 2, 1, 4, 3}, "the fork with the blob first": {2, 0, 3, 4, 1}} {
		t.Run("erased, "+name, func(t *testing.T) {
			f := newFamily(t)
			all := append([]turns.ID{f.parent}, f.forks...)
			for i, n := range order {
				f.erase(all[n])
				collectLater(t, f.d, nil)
				if i == 1 { // forks of one that is left
					f.restart()
					left := all[order[4]]
					at := must[*api.Appended](t)(f.c.Append(t.Context(), left, says("go on"))).ID
					f.shown[left] = f.show(f.c, left)
					for range 3 {
						all = append(all, f.fork(left, at))
					}
					collectLater(t, f.d, nil)
				}
				f.check()
			}
			for _, s := range all[5:] {
				f.erase(s)
			}
			f.nowhere()
		})
	}
}

// A text that is taken out of the preamble of one of them is there in the others, and nowhere once it is taken out of all.
func TestAWordOfASharedPreambleIsRedacted(t *testing.T) {
	for name, order := range map[string][]int{"the fork with the blob first": {2, 4, 0, 3, 1}} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			ctx := t.Context()
			all := append([]turns.ID{f.parent}, f.forks...)
			for i, n := range order {
				s := all[n]
				want := f.shown[s]
				for place, word := range f.words {
					if !strings.Contains(want.preamble, word) {
						t.Fatalf("%s is not in session %d", place, n)
					}
					want.preamble = strings.ReplaceAll(want.preamble, word, "[redacted]")
					must[*api.Redacted](t)(f.c.As(api.Operator).Redact(ctx, s, api.RedactTurn{Text: word}))
				}
				f.shown[s] = want
				collectLater(t, f.d, nil)
				f.check()
				if i == 1 {
					f.restart()
					for _, of := range []turns.ID{all[order[0]], all[order[4]]} { // one without the words, one with them
						for range 3 {
							all = append(all, f.fork(of, f.at))
						}
					}
					f.check()
				}
			}
			for _, s := range all[8:] {
				for _, word := range f.words {
					must[*api.Redacted](t)(f.c.As(api.Operator).Redact(ctx, s, api.RedactTurn{Text: word}))
				}
				f.shown[s] = f.show(f.c, s)
			}
			f.check()
			f.nowhere()
		})
	}
}

// A fork with a shared preamble goes to another ledger with all that it shows, also where another fork is erased, and is
// forked there. Where the session is erased that the tree begins with, nothing is imported.
func TestAForkWithASharedPreambleIsExported(t *testing.T) {
	for name, gone := range map[string]int{"all are there": -1, "the session is erased": 0, "the fork with the blob is erased": 2} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			all := append([]turns.ID{f.parent}, f.forks...)
			own := must[*api.Appended](t)(f.c.Append(t.Context(), all[4], says("of its own")))
			f.shown[all[4]] = f.show(f.c, all[4])
			if gone >= 0 {
				f.erase(all[gone])
			}
			_, there := start(t, t.TempDir())
			if gone == 0 {
				if _, err := there.As(api.Operator).Import(t.Context(), collectExport(t, f.c, all[4])); codeOf(err) != api.Conflict {
					t.Errorf("a fork of an erased session: %v, want a conflict", err)
				}
				return
			}
			for _, s := range []turns.ID{all[4], all[3]} {
				must[*api.Imported](t)(there.As(api.Operator).Import(t.Context(), collectExport(t, f.c, s)))
				if got := f.show(there, s); got != f.shown[s] {
					t.Errorf("imported, session %s shows %d and %d bytes, want %d and %d", s, len(got.preamble), len(got.messages), len(f.shown[s].preamble), len(f.shown[s].messages))
				}
			}
			for range 3 {
				s := must[*api.Session](t)(there.Fork(t.Context(), all[4], api.CreateFork{Turn: own.ID}))
				if got := f.show(there, s.ID); got != f.shown[all[4]] {
					t.Errorf("a fork of it there shows %d and %d bytes", len(got.preamble), len(got.messages))
				}
			}
			if v := must[*api.Verified](t)(there.As(api.Operator).Verify(t.Context())); !v.OK {
				t.Errorf("%+v", v.Problems)
			}
			f.check()
		})
	}
}

// A backup has the preamble that forks share, and a restored ledger erases what a newer list says, and no more.
func TestASharedPreambleIsRestored(t *testing.T) {
	f := newFamily(t)
	out := t.TempDir()
	cfg, _ := backUp(t, f.c.As(api.Operator), out)
	restored, _ := restoreTo(t, cfg)
	was := maps.Clone(f.shown)
	f.erase(f.forks[1])
	f.erase(f.parent)
	eraseSession(t, f.c, f.parent)
	if err := os.WriteFile(filepath.Join(out, "erasures"), must[[]byte](t)(os.ReadFile(filepath.Join(f.dir, folder.ErasuresFile))), 0o600); err != nil {
		t.Fatal(err)
	}
	erased, _ := restoreTo(t, cfg)
	stop(t, f.d, f.c)
	for dir, shown := range map[string]map[turns.ID]shownContext{restored: was, erased: f.shown} {
		f.dir, f.shown = dir, shown
		f.start()
		f.check()
		own := must[*api.Appended](t)(f.c.Append(t.Context(), f.forks[2], says("go on"))).ID
		f.shown[f.forks[2]] = f.show(f.c, f.forks[2])
		for range 3 {
			f.fork(f.forks[2], own)
		}
		f.check()
		f.forks = f.forks[:4]
		stop(t, f.d, f.c)
	}
}
