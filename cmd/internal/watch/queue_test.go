package watch

import (
	"slices"
	"testing"
	"time"
)

// Files that are written to while many others are come in the order in which that was
// noticed, however often they are written to. They come before what a look at all files
// found, of which the newest comes first.
func TestAFileThatWaitsIsNotPassedByNewerWrites(t *testing.T) {
	w, err := New(Config{Sources: []Source{{"claude", "/r"}}, State: "/s"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	files := make(map[string]*file)
	job := func(name string, newest, seen int, last bool) *job {
		if files[name] == nil {
			files[name] = &file{path: name}
		}
		j := &job{files: []*file{files[name]}, newest: at.Add(time.Duration(newest) * time.Second), last: last}
		if seen > 0 {
			j.seen = at.Add(time.Duration(seen) * time.Second)
		}
		return j
	}
	w.queue(job("waits for its parent", 99, 0, true))
	w.queue(job("was there", 50, 0, false))
	w.queue(job("was there, and is written to now", 40, 0, false))
	w.queue(job("was there, newer", 60, 0, false))
	w.queue(job("first", 70, 70, false))
	w.queue(job("second", 71, 71, false))
	w.queue(job("first", 80, 80, false)) // again, and newer than all
	w.queue(job("was there, and is written to now", 81, 81, false))
	var got []string
	for j, _ := w.next(); j != nil; j, _ = w.next() {
		got = append(got, j.files[0].path)
	}
	if want := []string{"first", "second", "was there, and is written to now", "was there, newer", "was there", "waits for its parent"}; !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// While the disk takes a save, the workers commit what they read, and the next save has it.
func TestASlowSaveHoldsUpNoCommit(t *testing.T) {
	w, err := New(Config{Sources: []Source{{"claude", "/r"}}, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w.load()
	f, saves := &file{path: "/r/a.jsonl", source: w.cfg.Sources[0]}, 0
	w.step = func(name string) {
		if name != "save" {
			return
		}
		if saves++; !w.mu.TryLock() {
			t.Fatal("a commit would wait for the disk")
		}
		w.mu.Unlock()
		if saves == 1 {
			w.commit(f, FileState{Offset: 7})
		}
	}
	for range 3 {
		if err := w.save(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := loadState(w.cfg.State)
	if err != nil || saves != 2 || s.Files[f.path] == nil || s.Files[f.path].Offset != 7 {
		t.Errorf("after %d saves: %+v, %v", saves, s, err)
	}
}
