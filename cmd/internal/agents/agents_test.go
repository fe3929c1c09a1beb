package agents

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// Each agent's variables and settings name the folder that is followed, and the one that a
// session is written into: both are the same place.
func TestFoldersFollowVariablesAndSettings(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, x := range map[string]struct {
		env, files map[string]string
		follow     []string // relative ones are below the home
		write      map[string]string
	}{
		"none": {
			follow: []string{".claude/projects", ".codex/sessions", ".codex/archived_sessions", ".pi/agent/sessions", ".gemini/tmp"},
			write: map[string]string{Claude: ".claude/projects/-w-my-shop", Codex: ".codex/sessions/2026/03/04", Pi: ".pi/agent/sessions/--w-my.shop--",
				Gemini: ".gemini/tmp/" + gemini.ProjectHash("/w/my.shop") + "/chats"},
		},
		"variables": {
			env:    map[string]string{claudeConfig: "/c", codexHome: "/x", piAgent: "~/p", geminiHome: "/g"},
			follow: []string{"/c/projects", "/x/sessions", "/x/archived_sessions", "p/sessions", "/g/.gemini/tmp"},
			write:  map[string]string{Claude: "/c/projects/-w-my-shop", Codex: "/x/sessions/2026/03/04", Pi: "p/sessions/--w-my.shop--"},
		},
		"pi's variable before its settings": {
			env:    map[string]string{piSession: "/all"},
			files:  map[string]string{".pi/agent/settings.json": `{"sessionDir":"~/settings"}`},
			follow: []string{".claude/projects", ".codex/sessions", ".codex/archived_sessions", "/all", ".gemini/tmp"},
			write:  map[string]string{Pi: "/all"},
		},
		"pi's settings": {
			files:  map[string]string{".pi/agent/settings.json": `{"theme":"dark","sessionDir":"~/settings"}`},
			follow: []string{".claude/projects", ".codex/sessions", ".codex/archived_sessions", "settings", ".gemini/tmp"},
			write:  map[string]string{Pi: "settings"},
		},
		"pi's settings with a folder in each project": {
			files:  map[string]string{".pi/agent/settings.json": `{"sessionDir":"log"}`},
			follow: []string{".claude/projects", ".codex/sessions", ".codex/archived_sessions", ".pi/agent/sessions", ".gemini/tmp"},
			write:  map[string]string{Pi: "/w/my.shop/log"},
		},
		"the list of Gemini CLI": {
			files:  map[string]string{".gemini/projects.json": `{"projects":{"/w/my.shop":"my-shop"}}`},
			follow: []string{".claude/projects", ".codex/sessions", ".codex/archived_sessions", ".pi/agent/sessions", ".gemini/tmp"},
			write:  map[string]string{Gemini: ".gemini/tmp/my-shop/chats"},
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
			var want, got []string
			for _, p := range x.follow {
				want = append(want, full(p))
			}
			for _, f := range h.Transcripts() {
				got = append(got, f.Dir)
			}
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
	for agent, want := range map[string]string{Claude: filepath.Join(h.Dir, ".claude/settings.json"), Codex: "/x/hooks.json", Pi: filepath.Join(h.Dir, ".pi/agent/extensions/nexus.ts"), Gemini: ""} {
		if got, err := h.HooksFile(agent); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", agent, got, err)
		}
	}
}
