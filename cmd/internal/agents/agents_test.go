package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/turns/transcript"
	"nexus/turns/transcript/formats"
	"nexus/turns/transcript/gemini"
)

// homeOf returns a home with variables and files.
func homeOf(t *testing.T, env, files map[string]string) Home {
	t.Helper()
	h := Home{Dir: t.TempDir(), Getenv: func(name string) string { return env[name] }}
	for name, text := range files {
		file := filepath.Join(h.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// folderOf is the folder of an agent's transcripts of a folder of work.
func folderOf(agent string, h Home, cwd string, at time.Time) string {
	a, _ := Find(agent)
	return a.Folder(h, cwd, at)
}

// usual are the folders of each agent's transcripts, without variables and settings.
var usual = map[string][]string{
	Claude: {".claude/projects"}, Codex: {".codex/sessions", ".codex/archived_sessions"}, Pi: {".pi/agent/sessions"}, Gemini: {".gemini/tmp"},
}

// Each agent's variables and settings name the folder that is followed, and the one that a
// session is written into: both are the same place.
func TestFoldersFollowVariablesAndSettings(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, x := range map[string]struct {
		env, files map[string]string
		follow     map[string][]string // other than usual; relative ones are below the home
		write      map[string]string
	}{
		"none": {
			write: map[string]string{Claude: ".claude/projects/-w-my-shop", Codex: ".codex/sessions/2026/03/04", Pi: ".pi/agent/sessions/--w-my.shop--",
				Gemini: ".gemini/tmp/" + gemini.ProjectHash("/w/my.shop") + "/chats"},
		},
		"variables": {
			env:    map[string]string{claudeConfig: "/c", codexHome: "/x", piAgent: "~/p", geminiHome: "/g"},
			follow: map[string][]string{Claude: {"/c/projects"}, Codex: {"/x/sessions", "/x/archived_sessions"}, Pi: {"p/sessions"}, Gemini: {"/g/.gemini/tmp"}},
			write:  map[string]string{Claude: "/c/projects/-w-my-shop", Codex: "/x/sessions/2026/03/04", Pi: "p/sessions/--w-my.shop--"},
		},
		"pi's variable before its settings": {
			env:    map[string]string{piSession: "/all"},
			files:  map[string]string{".pi/agent/settings.json": `{"sessionDir":"~/settings"}`},
			follow: map[string][]string{Pi: {"/all"}},
			write:  map[string]string{Pi: "/all"},
		},
		"pi's settings": {
			files:  map[string]string{".pi/agent/settings.json": `{"theme":"dark","sessionDir":"~/settings"}`},
			follow: map[string][]string{Pi: {"settings"}},
			write:  map[string]string{Pi: "settings"},
		},
		"pi's settings with a folder in each project": {
			files: map[string]string{".pi/agent/settings.json": `{"sessionDir":"log"}`},
			write: map[string]string{Pi: "/w/my.shop/log"},
		},
		"the list of Gemini CLI": {
			files: map[string]string{".gemini/projects.json": `{"projects":{"/w/my.shop":"my-shop"}}`},
			write: map[string]string{Gemini: ".gemini/tmp/my-shop/chats"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := homeOf(t, x.env, x.files)
			full := func(p string) string {
				if filepath.IsAbs(p) {
					return p
				}
				return filepath.Join(h.Dir, p)
			}
			var want []Folder
			for _, agent := range Names() {
				dirs, ok := x.follow[agent]
				if !ok {
					dirs = usual[agent]
				}
				for _, p := range dirs {
					want = append(want, Folder{agent, full(p)})
				}
			}
			got := h.Transcripts()
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			for agent, p := range x.write {
				if got := folderOf(agent, h, "/w/my.shop", at); got != full(p) {
					t.Errorf("%s: %s, not %s", agent, got, full(p))
				}
			}
		})
	}
}

// A name in the list of Gemini CLI that leads out of its folder is not used.
func TestNameThatLeadsOutIsNotUsed(t *testing.T) {
	h := homeOf(t, nil, map[string]string{".gemini/projects.json": `{"projects":{"/w":"../x"}}`})
	if got := folderOf(Gemini, h, "/w", time.Time{}); filepath.Dir(filepath.Dir(got)) != filepath.Join(h.Dir, ".gemini", "tmp") {
		t.Error(got)
	}
}

// Gemini CLI has no hooks that ledgerctl knows.
func TestHooksFileOfEachAgent(t *testing.T) {
	h := homeOf(t, map[string]string{codexHome: "/x"}, nil)
	files := map[string]string{Claude: filepath.Join(h.Dir, ".claude/settings.json"), Codex: "/x/hooks.json", Pi: filepath.Join(h.Dir, ".pi/agent/extensions/nexus.ts")}
	for _, agent := range Names() {
		want := files[agent]
		if got, err := h.HooksFile(agent); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", agent, got, err)
		}
	}
}

// A row says how a transcript is resumed, or nothing of it, and its format is written if the
// agent resumes it.
func TestRowsAreWhole(t *testing.T) {
	for _, a := range All() {
		if len(usual[a.Name]) == 0 {
			t.Errorf("the table usual of this test has no folders of %s", a.Name)
		}
		if a.Name == "" || a.Title == "" || a.transcripts == nil {
			t.Errorf("the row %+v lacks a name, a title or folders", a)
		}
		if some := a.folder != nil || a.file != nil || a.resume != nil; some != a.Resumes() {
			t.Errorf("the row of %s has some of folder, file and resume, and not all", a.Name)
		}
		f, ok := formats.Find(a.Format)
		if !ok || a.Resumes() && f.Write == nil {
			t.Errorf("%s has the format %q, which formats.All does not have, or which is not written", a.Name, a.Format)
		}
	}
}

// An agent that is only read has its folders, and is refused where a transcript would be
// written for it.
func TestAgentThatIsOnlyReadResumesNothing(t *testing.T) {
	a := Agent{Name: "kilo", Title: "Kilo", Format: "kilo", transcripts: func(h Home) []string { return []string{h.Dir} }}
	h, s := homeOf(t, nil, nil), &transcript.WrittenSession{Cwd: "/w"}
	if a.Resumes() || a.Folder(h, "/w", time.Time{}) != "" || a.File(h, s) != "" || a.Command(s, "f", "m") != nil {
		t.Error("it resumes a transcript")
	}
	err := a.CheckResumes()
	if !errors.Is(err, ErrOnlyRead) || !strings.Contains(err.Error(), "kilo") || !strings.Contains(err.Error(), "claude, codex, pi and gemini") {
		t.Error(err)
	}
	for _, name := range Resuming() {
		if a, _ := Find(name); a.CheckResumes() != nil {
			t.Error(a.CheckResumes())
		}
	}
	if !a.Takes("x/y.jsonl") || a.Takes("x/y.json") {
		t.Error("without a rule of its own, an agent's transcripts are *.jsonl")
	}
}
