package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/agents"
)

// Transcripts of all agents that grow line by line: the ledger gets the turns of an import.
// A second run stores nothing, with its state or without.
func TestGrowingTranscriptsArrive(t *testing.T) {
	for _, polling := range []bool{false, true} {
		t.Run(fmt.Sprintf("polling=%v", polling), func(t *testing.T) {
			l, home := openLedger(t), t.TempDir()
			var paths []string
			var lines [][]string
			for i := range 12 {
				path, text := transcriptFile(t, agents.Names()[i%len(agents.Names())], i, 2)
				paths, lines = append(paths, filepath.Join(home, path)), append(lines, text)
			}
			appendTo(t, paths[0], lines[0][0]) // one is there before the watch begins
			r := watchHome(t, l, home, func(c *Config) { c.Polling = polling })
			for n := 0; ; n++ {
				more := false
				for i, path := range paths {
					if n < len(lines[i]) && (i > 0 || n > 0) {
						half := len(lines[i][n]) / 2
						appendTo(t, path, lines[i][n][:half])
						appendTo(t, path, lines[i][n][half:])
						more = true
					}
				}
				if !more && n > 0 {
					break
				}
			}
			r.untilRead(paths...)
			r.stop()
			checkStored(t, l.client, paths...)
			stored := total(r.w.state)
			if stored == 0 {
				t.Fatal("nothing was stored")
			}
			if again := once(t, l, home); total(again) != stored {
				t.Errorf("a second run stored %d events", total(again)-stored)
			}
			if err := os.Remove(stateFile(filepath.Join(home, "state"))); err != nil {
				t.Fatal(err)
			}
			if again := once(t, l, home); total(again) != 0 {
				t.Errorf("a run without the state stored %d events", total(again))
			}
			checkStored(t, l.client, paths...)
		})
	}
}

// A file that may grow is open in the status, and no more once nobody wrote to it for long.
func TestStatusSaysWhichFilesMayGrow(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	path, text := transcriptFile(t, "claude", 1, 2)
	path = filepath.Join(home, path)
	appendTo(t, path, strings.Join(text, ""))
	for _, tc := range []struct {
		written time.Time
		open    int
	}{{time.Now(), 1}, {time.Now().Add(-2 * time.Hour), 0}} {
		if err := os.Chtimes(path, tc.written, tc.written); err != nil {
			t.Fatal(err)
		}
		once(t, l, home)
		s, err := ReadStatus(filepath.Join(home, "state"), configOf(l, home).Sources)
		if err != nil {
			t.Fatal(err)
		}
		open, files := 0, 0
		for _, x := range s.Sources {
			open, files = open+x.Open, files+x.Files
		}
		if open != tc.open || files != 1 {
			t.Errorf("written %v: %d of %d files are open, want %d", tc.written, open, files, tc.open)
		}
	}
}

// A transcript that its agent or a person removed is listed, with the session that has it.
func TestVanishedTranscriptsAreListed(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	var paths []string
	for _, n := range []int{1, 2} {
		path, text := transcriptFile(t, "claude", n, 2)
		paths = append(paths, filepath.Join(home, path))
		appendTo(t, paths[n-1], strings.Join(text, ""))
	}
	once(t, l, home)
	list := func() []VanishedFile {
		t.Helper()
		out, err := Vanished(filepath.Join(home, "state"), configOf(l, home).Sources)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := list(); len(got) != 0 {
		t.Fatalf("vanished though there: %+v", got)
	}
	st, err := os.Stat(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(paths[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before the watch has noticed it, and after
		got := list()
		if len(got) != 1 || got[0].File != paths[0] || got[0].Session.IsZero() || got[0].Agent != "claude" || got[0].Bytes+got[0].Lost != st.Size() {
			t.Fatalf("vanished: %+v, want %s of %d bytes", got, paths[0], st.Size())
		}
		once(t, l, home)
	}
	if got, err := Vanished(filepath.Join(home, "nowhere"), configOf(l, home).Sources); err != nil || len(got) != 0 {
		t.Errorf("without a state: %+v, %v", got, err)
	}
}

func total(s *State) (n int) {
	for _, st := range s.Files {
		n += st.Stored
	}
	return n
}

// What happens to a file deletes nothing in the ledger, is recorded, and what is there
// after it is stored.
func TestWhatHappensToAFileIsRecorded(t *testing.T) {
	l := openLedger(t)
	for i, tc := range []struct {
		name, event string
		do          func(t *testing.T, path string, lines []string) string // returns the path that has the lines then
	}{
		{"vanishes and comes back", "vanished", nil},
		{"truncated, then written again", "truncated", func(t *testing.T, path string, lines []string) string {
			if err := os.Truncate(path, int64(len(lines[0])+10)); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"rewritten at the same size", "rewritten", func(t *testing.T, path string, lines []string) string {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Write([]byte(strings.Replace(string(b), "answer 0", "another0", 1)))
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"replaced by another", "replaced", func(t *testing.T, path string, lines []string) string {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path+".new", strings.Replace(string(b), "answer 0", "other 00", 1))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"renamed", "renamed", func(t *testing.T, path string, lines []string) string {
			to := filepath.Join(filepath.Dir(filepath.Dir(path)), "-other", filepath.Base(path))
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path, to); err != nil {
				t.Fatal(err)
			}
			return to
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			home := t.TempDir()
			rel, lines := transcriptFile(t, "claude", 100+i, 3)
			path := filepath.Join(home, rel)
			whole := filepath.Join(t.TempDir(), "whole.jsonl")
			write(t, whole, strings.Join(lines, ""))
			r := watchHome(t, l, home, nil)
			appendTo(t, path, strings.Join(lines[:8], ""))
			r.untilRead(path)
			if tc.do == nil {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				path = tc.do(t, path, lines)
			}
			r.until(tc.event, func() bool { return r.events(tc.event) == 1 })
			switch tc.event {
			case "vanished":
				appendTo(t, path, strings.Join(lines, ""))
			case "truncated":
				r.untilRead(path)
				appendTo(t, path, strings.Join(lines, "")[len(lines[0])+10:]) // not by another truncation, which could be seen
			default:
				appendTo(t, path, strings.Join(lines[8:], ""))
			}
			if tc.event == "rewritten" || tc.event == "replaced" { // one answer is another now
				r.until("why one answer is not in the ledger", func() bool {
					info, err := os.Stat(path)
					st := r.at(path)
					return err == nil && st.Size == info.Size() && strings.Contains(st.Failed, "1 of its records have other content")
				})
			} else {
				r.untilRead(path)
			}
			checkStored(t, l.client, whole)
			if n := r.events(tc.event); n != 1 {
				t.Errorf("%d events %q", n, tc.event)
			}
		})
	}
}

// A kill at any step of a watch loses nothing and stores nothing twice: the next run
// brings in the rest.
func TestKilledWatchLosesNothing(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	var paths []string
	for i, agent := range agents.Names() {
		rel, lines := transcriptFile(t, agent, 200+i, 2)
		paths = append(paths, filepath.Join(home, rel))
		write(t, paths[i], strings.Join(lines, ""))
	}
	stride := 9
	if *everyKill {
		stride = 1
	}
	kills := 0
	for n := 1; ; n += stride {
		if *everyKill { // each run begins without a state, so that each step is reached
			_ = os.RemoveAll(filepath.Join(home, "state"))
		}
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "NEXUS_TEST_CHILD=watch", "NEXUS_TEST_HOME="+home, "NEXUS_TEST_STATE="+filepath.Join(home, "state"), "NEXUS_TEST_URL="+l.url, "NEXUS_TEST_CREDS="+l.creds, fmt.Sprintf("NEXUS_TEST_KILL=%d", n))
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the watch failed: %v\n%s", err, out)
		}
		kills++
	}
	if kills < 3 {
		t.Errorf("the watch was killed %d times", kills)
	}
	once(t, l, home)
	checkStored(t, l.client, paths...)
}

// A daemon that is not there yet, or is killed, is waited for; nothing is dropped.
func TestKilledDaemonIsWaitedFor(t *testing.T) {
	home, data := t.TempDir(), t.TempDir()
	url, kill := spawnDaemon(t, data, "127.0.0.1:0")
	listen := strings.TrimPrefix(url, "nats://")
	l := &ledger{url: url, creds: filepath.Join(data, "users", "operator.nk")}
	kill()
	rel, lines := transcriptFile(t, "claude", 300, 6)
	path := filepath.Join(home, rel)
	appendTo(t, path, strings.Join(lines[:5], ""))
	refused := make(chan struct{}, 1)
	r := watchHome(t, l, home, func(c *Config) {
		c.Log = func(format string, args ...any) {
			if strings.HasPrefix(format, "waiting") {
				select {
				case refused <- struct{}{}:
				default:
				}
			}
		}
	})
	<-refused
	_, kill = spawnDaemon(t, data, listen)
	r.untilRead(path)
	kill()
	appendTo(t, path, strings.Join(lines[5:15], ""))
	_, kill = spawnDaemon(t, data, listen)
	appendTo(t, path, strings.Join(lines[15:], ""))
	r.untilRead(path)
	kill()
	_, _ = spawnDaemon(t, data, listen)
	c, err := dialer(url, l.creds)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Conn().Close()
	checkStored(t, c, path)
}

// A line of 10 MB, written in parts, is one line.
func TestLongLineArrivesInParts(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	rel, lines := transcriptFile(t, "pi", 400, 2)
	path := filepath.Join(home, rel)
	lines[1] = strings.Replace(lines[1], "question 0", strings.Repeat("long ", 2<<20), 1)
	r := watchHome(t, l, home, nil)
	for _, line := range lines {
		for len(line) > 0 {
			n := min(len(line), 1<<20)
			appendTo(t, path, line[:n])
			line = line[n:]
		}
	}
	r.untilRead(path)
	checkStored(t, l.client, path)
}

// A state that was torn, or that is of another ledger, is not believed.
func TestWrongStateIsNotBelieved(t *testing.T) {
	first, second, home := openLedger(t), openLedger(t), t.TempDir()
	rel, lines := transcriptFile(t, "codex", 500, 3)
	path := filepath.Join(home, rel)
	write(t, path, strings.Join(lines, ""))
	once(t, first, home)
	once(t, second, home) // with the state of the first
	checkStored(t, second.client, path)
	file := stateFile(filepath.Join(home, "state"))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{"", string(b[:len(b)/2]), strings.Replace(string(b), `"stored":`, `"stored": `, 1)} {
		write(t, file, torn)
		if _, err := loadState(filepath.Dir(file)); err == nil {
			t.Errorf("a torn state is taken: %.60q", torn)
		}
		if n := total(once(t, second, home)); n != 0 {
			t.Errorf("%d events were stored again", n)
		}
	}
}

// A file that is no transcript is said to be none, and is read when it has become one.
func TestFileThatIsNoTranscriptIsRecorded(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	rel, lines := transcriptFile(t, "claude", 600, 2)
	path := filepath.Join(home, rel)
	write(t, path, "no transcript\n")
	r := watchHome(t, l, home, nil)
	r.until("a failure", func() bool { return r.at(path).Failed != "" })
	write(t, path, strings.Join(lines, ""))
	r.untilRead(path)
	checkStored(t, l.client, path)
}

// Two watches do not use one state.
func TestSecondWatchIsRefused(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	r := watchHome(t, l, home, nil)
	r.until("the state", func() bool { return exists(stateFile(r.w.cfg.State)) })
	w, err := New(r.w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, ErrRunning) {
		t.Errorf("a second watch: %v", err)
	}
	if _, running, err := ReadState(r.w.cfg.State); err != nil || !running {
		t.Errorf("running %v, %v", running, err)
	}
	r.stop()
	if _, running, err := ReadState(r.w.cfg.State); err != nil || running {
		t.Errorf("after the end: running %v, %v", running, err)
	}
}

// Who asks whether a watch runs keeps none from starting, and is not taken for one.
func TestWhoAsksForAWatchIsNone(t *testing.T) {
	dir := t.TempDir()
	open := func() *os.File {
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := open()
	defer first.Close()
	if isLocked(first) {
		t.Fatal("locked, and nobody has the lock")
	}
	if _, running, _ := ReadState(dir); running {
		t.Error("who asks is taken for a watch")
	}
	time.AfterFunc(20*time.Millisecond, func() { first.Close() })
	own := open()
	defer own.Close()
	if err := lock(own); err != nil {
		t.Errorf("a watch that starts while another process asks: %v", err)
	}
	if _, running, _ := ReadState(dir); !running {
		t.Error("a watch runs, and is not seen")
	}
}

// Half a line at the end of a watch is read whole by the next.
func TestHalfLineIsReadByTheNextWatch(t *testing.T) {
	for i, agent := range agents.Names() {
		t.Run(agent, func(t *testing.T) {
			l, home := openLedger(t), t.TempDir()
			rel, lines := transcriptFile(t, agent, 700+i, 2)
			path, text := filepath.Join(home, rel), strings.Join(lines, "")
			for _, n := range []int{len(lines[0]) + len(lines[1])/2, len(text) - len(lines[len(lines)-1])/2, len(text)} {
				have := 0
				if b, err := os.ReadFile(path); err == nil {
					have = len(b)
				}
				appendTo(t, path, text[have:n])
				if st := once(t, l, home).Files[path]; st.Offset != int64(strings.LastIndexByte(text[:n], '\n')+1) {
					t.Errorf("of %d bytes %d are said to be in the ledger", n, st.Offset)
				}
			}
			checkStored(t, l.client, path)
		})
	}
}

// Folders that are made after the start, the agent's own included, are followed without a
// look at all files.
func TestFolderThatComesLaterIsFollowed(t *testing.T) {
	if !notifies(t, t.TempDir()) {
		t.Skip("this file system sends no notifications")
	}
	l, home := openLedger(t), t.TempDir()
	r := watchHome(t, l, home, func(c *Config) { c.Rescan = time.Hour })
	limited := func() bool {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		return r.w.state != nil && r.w.state.Limited != ""
	}
	r.until("the first look", func() bool { return limited() || exists(stateFile(r.w.cfg.State)) })
	for i := range 3 {
		rel, lines := transcriptFile(t, "claude", 800+i, 2)
		path := filepath.Join(home, ".claude", "projects", fmt.Sprintf("-later%d", i), filepath.Base(rel))
		for _, line := range lines {
			appendTo(t, path, line)
		}
		r.until("all of "+path, func() bool { return limited() || r.isRead(path) })
		if limited() {
			t.Skip("this machine has no notifications left")
		}
		checkStored(t, l.client, path)
	}
}

// A source may be a link to a folder elsewhere. A folder of it that can't be read hides no
// other.
func TestSourceMayBeALink(t *testing.T) {
	l, home, elsewhere := openLedger(t), t.TempDir(), t.TempDir()
	rel, lines := transcriptFile(t, "claude", 850, 2)
	root := filepath.Join(home, ".claude", "projects")
	path := filepath.Join(home, rel)
	if err := errors.Join(os.MkdirAll(filepath.Dir(root), 0o700), os.Symlink(elsewhere, root)); err != nil {
		t.Fatal(err)
	}
	write(t, path, lines[0])
	once(t, l, home)
	r := watchHome(t, l, home, nil)
	appendTo(t, path, strings.Join(lines[1:], ""))
	r.untilRead(path)
	checkStored(t, l.client, path)
}

func TestFolderThatCanNotBeReadHidesNoOther(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a", "one.jsonl"), "")
	write(t, filepath.Join(root, "c", "two.jsonl"), "")
	closed := filepath.Join(root, "b")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	var found []string
	err := Source{"claude", root}.find(func(string) {}, func(path string, _ fs.FileInfo) { found = append(found, filepath.Base(path)) })
	if len(found) != 2 {
		t.Errorf("found %v, %v", found, err)
	}
	if _, open := os.ReadDir(closed); (open == nil) != (err == nil) { // root reads everything
		t.Errorf("the error is %v", err)
	}
}

// Half a line that is replaced by a shorter whole one is not waited for.
func TestHalfLineThatIsReplacedIsRead(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	rel, lines := transcriptFile(t, "pi", 860, 2)
	path := filepath.Join(home, rel)
	half := strings.TrimSuffix(lines[3], "\n") + strings.Repeat(" ", 1000)
	r := watchHome(t, l, home, nil)
	appendTo(t, path, strings.Join(lines[:3], "")+half)
	r.untilRead(path)
	whole := strings.Join(lines[:4], "")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(whole)
	if err = errors.Join(err, f.Truncate(int64(len(whole))), f.Close()); err != nil {
		t.Fatal(err)
	}
	r.until("a look at what is there now", func() bool { return r.at(path).Size == int64(len(whole)) })
	if n := r.at(path).Offset; n != int64(len(whole)) {
		t.Errorf("%d bytes of %d are read", n, len(whole))
	}
}

// A rollout that Codex wrote anew at a compaction has what came later.
func TestRolloutThatWasWrittenAnewHasWhatCameLater(t *testing.T) {
	l, home := openLedger(t), t.TempDir()
	rel, lines := transcriptFile(t, "codex", 700, 4)
	path := filepath.Join(home, rel)
	write(t, path, strings.Join(lines[:1+2*6], ""))
	before := total(once(t, l, home))
	compacted := `{"timestamp":"2026-04-11T14:00:08Z","type":"compacted","payload":{"message":"","replacement_history":[{"type":"message","role":"user","content":"so far"}]}}` + "\n"
	write(t, path, lines[0]+compacted+strings.Join(lines[1+2*6:], ""))
	s := once(t, l, home)
	if n := total(s) - before; n != 5 { // the compaction, and two turns of each of two questions
		t.Errorf("%d events stored after %d, want 5", n, before)
	}
	for path, st := range s.Files {
		if st.Failed != "" {
			t.Errorf("%s: %s", path, st.Failed)
		}
	}
	if n := total(once(t, l, home)); n != before+5 {
		t.Errorf("%d events stored in the end", n)
	}
}
