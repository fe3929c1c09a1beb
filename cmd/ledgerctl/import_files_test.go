package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/transcripts/steps"
	"nexus/turns"
)

// piTranscript is a transcript of one turn.
func piTranscript(id string) string {
	return `{"type":"session","version":3,"id":"` + id + `","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/w"}
{"type":"message","id":"a1` + id + `","parentId":null,"timestamp":"2025-12-09T00:54:00Z","message":{"role":"user","content":"one"}}
{"type":"message","id":"a2` + id + `","parentId":"a1` + id + `","timestamp":"2025-12-09T00:54:01Z","message":{"role":"assistant","content":"two"}}
`
}

// fifo makes a pipe that text is written to once somebody reads it. drain ends the writer
// if nobody did.
func fifo(t *testing.T, name, text string) (drain func()) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = os.WriteFile(name, []byte(text), 0o600)
	}()
	return func() {
		r, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Error(err)
			return
		}
		<-written
		r.Close()
	}
}

// daemonURL starts a daemon, and names its operator's credentials in the environment.
func daemonURL(t *testing.T) string {
	t.Helper()
	url, creds, stop, err := startDaemon(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	t.Setenv("NEXUS_CREDS", creds)
	return url
}

// folderOfSpecialFiles returns a folder with two transcripts, one behind a link, and with
// a pipe, a socket and a link to a folder, all of them called *.jsonl. The caller drains
// the pipe.
func folderOfSpecialFiles(t *testing.T) (dir string, drain func()) {
	t.Helper()
	dir = t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(piTranscript("a")), 0o600),
		os.WriteFile(target, []byte(piTranscript("linked")), 0o600),
		os.Symlink(target, filepath.Join(dir, "link.jsonl")),
		os.Symlink(t.TempDir(), filepath.Join(dir, "linkdir.jsonl")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir) // the path of a socket is short
	l, err := net.Listen("unix", "s.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return dir, fifo(t, filepath.Join(dir, "pipe.jsonl"), piTranscript("piped"))
}

func TestImportOfAFolderReadsRegularFilesOnly(t *testing.T) {
	url := daemonURL(t)
	dir, drain := folderOfSpecialFiles(t)
	var out, errw bytes.Buffer
	code := run(t.Context(), []string{"import", "--server", url, "--final", dir}, strings.NewReader(""), &out, &errw)
	drain()
	if code != 0 || !strings.Contains(out.String(), "all 2 files: 2 sessions, 2 turns; 4 events stored") {
		t.Errorf("exit %d\n%s%s", code, &out, &errw)
	}
	if want := "3 files are skipped, since they are not regular files: linkdir.jsonl, pipe.jsonl, s.jsonl\nimport "; !strings.HasPrefix(errw.String(), want) || strings.Count(errw.String(), "\n") != 2 {
		t.Errorf("stderr %q, want %q", &errw, want)
	}
}

func TestCompareOfAFolderReadsRegularFilesOnly(t *testing.T) {
	dir, drain := folderOfSpecialFiles(t)
	var out, errw bytes.Buffer
	code := run(t.Context(), []string{"compare", "--json", dir}, strings.NewReader(""), &out, &errw)
	drain()
	if code != 0 || !strings.Contains(errw.String(), "3 files are skipped, since they are not regular files: linkdir.jsonl, pipe.jsonl, s.jsonl") {
		t.Errorf("exit %d\n%s%s", code, &out, &errw)
	}
}

// A turn with a part that no ledger takes ends the import of its file, and the error says which
// turn it is. The other files come in.
func TestImportNamesTheTurnThatIsTooLarge(t *testing.T) {
	url, dir, size := daemonURL(t), t.TempDir(), turns.MaxPart+1
	large := piTranscript("a") + strings.ReplaceAll(`{"type":"message","id":"a3","parentId":"a2a","timestamp":"2025-12-09T00:55:00Z","message":{"role":"user","content":"CONTENT"}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2025-12-09T00:55:01Z","message":{"role":"assistant","content":"ok"}}
`, "CONTENT", strings.Repeat("x", size))
	for name, text := range map[string]string{"a.jsonl": large, "b.jsonl": piTranscript("b")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errw bytes.Buffer
	code := run(t.Context(), []string{"import", "--server", url, "--final", dir}, strings.NewReader(""), &out, &errw)
	want := "turn 2 of the file (2025-12-09T00:55:01Z), with a part of " + prose.Grouped(uint64(size)) + " bytes, and what follows it are not stored: "
	if code != 2 || !strings.Contains(errw.String(), want) || !strings.Contains(out.String(), "b.jsonl (pi): 1 session, 1 turn; 2 events stored") {
		t.Errorf("exit %d, want 2 and %q\n%s%s", code, want, &out, &errw)
	}
	if !strings.Contains(errw.String(), "the limit is 104857600") {
		t.Errorf("no limit in %s", &errw)
	}
}

// forkedTranscript is a fork of a session that is in no ledger, with what it copied.
const forkedTranscript = `{"timestamp":"2026-04-11T20:15:02Z","type":"session_meta","payload":{"id":"019d7e2f-0041-7310-951c-94020254dfc9","forked_from_id":"019d7d08-46c9-7f73-affe-4e6ca9852d56"}}
{"timestamp":"2026-04-11T20:15:02Z","type":"session_meta","payload":{"id":"019d7d08-46c9-7f73-affe-4e6ca9852d56"}}
{"timestamp":"2026-04-11T20:15:02Z","type":"response_item","payload":{"type":"message","role":"user","content":"one"}}
{"timestamp":"2026-04-11T20:15:02Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"two"}}
{"timestamp":"2026-04-11T20:15:03Z","type":"event_msg","payload":{"type":"task_started","turn_id":"019d7e2f-006a-78e0-8d88-fc868c230ea4"}}
{"timestamp":"2026-04-11T20:15:04Z","type":"response_item","payload":{"type":"message","role":"user","content":"three"}}
{"timestamp":"2026-04-11T20:15:05Z","type":"response_item","payload":{"type":"message","role":"assistant","content":"four"}}
`

// A pipe that is named itself is read, but only once: the import does not wait for a
// second writer where it would read a file again.
func TestImportReadsANamedPipeOnce(t *testing.T) {
	url := daemonURL(t)
	for _, c := range []struct {
		name, text, out, err string
		code                 int
	}{
		{name: "whole", text: piTranscript("p"), out: "1 session, 1 turn; 2 events stored"},
		{name: "fork without its parent", text: forkedTranscript, err: steps.ErrNoParent.Error(), code: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "pipe.jsonl")
			drain := fifo(t, name, c.text)
			var out, errw bytes.Buffer
			code := run(t.Context(), []string{"import", "--server", url, "--final", name}, strings.NewReader(""), &out, &errw)
			drain()
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errw.String(), c.err) {
				t.Errorf("exit %d\n%s%s", code, &out, &errw)
			}
		})
	}
}
