package agents

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/turns/transcript"
)

// Agent is a coding agent: where it keeps its transcripts and its settings, and how it is
// told to go on with a transcript.
type Agent struct {
	Name   string // as a person types it
	Title  string // as sentences name it
	Format string // of its transcripts, in package formats

	variables   []string               // of the environment, that name its folders
	transcripts func(h Home) []string  // the folders of its transcripts
	takes       func(path string) bool // reports whether a file there is a transcript, by its path below the folder; nil: *.jsonl are

	// All three are nil for an agent that is only read.
	folder func(h Home, cwd string, at time.Time) string // the one for a folder of work and a time
	file   func(s *transcript.WrittenSession) string     // the name of a transcript in it
	resume func(id, file, model string) []string         // the command that resumes a transcript

	hooks func(h Home) string // the file that says what it calls at events; nil: it calls nothing
}

// The names of the agents, as a person types them.
const (
	Claude = "claude"
	Codex  = "codex"
	Pi     = "pi"
	Gemini = "gemini"
)

// All returns all agents. Places and commands are those of Claude Code 2.1, Codex 0.169, pi
// 0.73 and Gemini CLI 0.61.
func All() []Agent {
	return []Agent{
		{
			Name: Claude, Title: "Claude Code", Format: "claude-code", variables: []string{claudeConfig},
			transcripts: func(h Home) []string { return []string{filepath.Join(h.claude(), "projects")} },
			folder: func(h Home, cwd string, _ time.Time) string {
				return filepath.Join(h.claude(), "projects", notAlphanumeric.ReplaceAllString(cwd, "-"))
			},
			file:   func(s *transcript.WrittenSession) string { return s.TranscriptID() + ".jsonl" },
			resume: func(id, _, model string) []string { return with("--model", model, "claude", "--resume", id) },
			hooks:  func(h Home) string { return filepath.Join(h.claude(), "settings.json") },
		},
		{
			Name: Codex, Title: "Codex", Format: "codex", variables: []string{codexHome},
			transcripts: func(h Home) []string {
				return []string{filepath.Join(h.codex(), "sessions"), filepath.Join(h.codex(), "archived_sessions")}
			},
			takes: func(path string) bool {
				return strings.HasPrefix(filepath.Base(path), "rollout-") && (strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".jsonl.zst"))
			},
			folder: func(h Home, _ string, at time.Time) string {
				return filepath.Join(h.codex(), "sessions", at.Format("2006"), at.Format("01"), at.Format("02"))
			},
			file: func(s *transcript.WrittenSession) string {
				return "rollout-" + s.Time.UTC().Format("2006-01-02T15-04-05") + "-" + s.TranscriptID() + ".jsonl"
			},
			resume: func(id, _, model string) []string { return with("--model", model, "codex", "resume", id) },
			hooks:  func(h Home) string { return filepath.Join(h.codex(), "hooks.json") },
		},
		{
			Name: Pi, Title: "pi", Format: "pi", variables: []string{piAgent, piSession},
			transcripts: func(h Home) []string {
				if dir := h.piSessions("", filepath.Join(h.pi(), "settings.json")); dir != "" {
					return []string{dir}
				}
				return []string{filepath.Join(h.pi(), "sessions")}
			},
			folder: func(h Home, cwd string, _ time.Time) string { return h.piFolder(cwd) },
			file: func(s *transcript.WrittenSession) string {
				return strings.NewReplacer(":", "-", ".", "-").Replace(s.Time.UTC().Format("2006-01-02T15:04:05.000Z")) + "_" + s.TranscriptID() + ".jsonl"
			},
			resume: func(_, file, model string) []string { return with("--model", model, "pi", "--session", file) },
			hooks:  func(h Home) string { return filepath.Join(h.pi(), "extensions", "nexus.ts") },
		},
		{
			Name: Gemini, Title: "Gemini CLI", Format: "gemini-cli", variables: []string{geminiHome},
			transcripts: func(h Home) []string { return []string{filepath.Join(h.gemini(), "tmp")} },
			takes: func(path string) bool {
				in := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
				return slices.Contains(in, "chats") && (strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".json"))
			},
			folder: func(h Home, cwd string, _ time.Time) string {
				return filepath.Join(h.gemini(), "tmp", h.geminiProject(cwd), "chats")
			},
			file: func(s *transcript.WrittenSession) string {
				return "session-" + s.Time.UTC().Format("2006-01-02T15-04") + "-" + geminiID(s) + ".json"
			},
			resume: func(id, _, model string) []string { return with("--model", model, "gemini", "--resume", id) },
		},
	}
}

// with returns a command with a flag behind it, if the flag has a value.
func with(flag, value string, command ...string) []string {
	if value == "" {
		return command
	}
	return append(command, flag, value)
}

// geminiID is the part of a chat's id in the name of its file. Ids of a day begin with the
// same digits, so it is the end that tells files apart.
func geminiID(s *transcript.WrittenSession) string {
	id := hex.EncodeToString(s.ID[:])
	return id[len(id)-8:]
}

// Find returns the agent of a name, or of the name of the format of its transcripts.
func Find(name string) (Agent, bool) {
	for _, a := range All() {
		if a.Name == name || a.Format == name {
			return a, true
		}
	}
	return Agent{}, false
}

// Names returns the names of all agents.
func Names() (out []string) {
	for _, a := range All() {
		out = append(out, a.Name)
	}
	return out
}

// Variables returns the environment variables that name folders of agents. A process that
// a service manager starts does not have those of the user's shell.
func Variables() (out []string) {
	for _, a := range All() {
		out = append(out, a.variables...)
	}
	return out
}

// Titles returns the names of all agents as a sentence lists them.
func Titles() string {
	var all []string
	for _, a := range All() {
		all = append(all, a.Title)
	}
	return listed(all)
}

// listed returns names as a sentence lists them: "a, b and c".
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Takes reports whether a file is a transcript of the agent, by its path below one of the
// agent's folders.
func (a Agent) Takes(path string) bool {
	if a.takes != nil {
		return a.takes(path)
	}
	return strings.HasSuffix(path, ".jsonl")
}

// ErrOnlyRead: the agent does not resume a transcript that another program wrote.
var ErrOnlyRead = errors.New("the agent is only read")

// Resumes reports whether the agent resumes a transcript that is written for it. For one
// that does not, Folder, File and Command return zero values.
func (a Agent) Resumes() bool { return a.folder != nil && a.file != nil && a.resume != nil }

// Resuming returns the names of the agents that resume transcripts.
func Resuming() (out []string) {
	for _, a := range All() {
		if a.Resumes() {
			out = append(out, a.Name)
		}
	}
	return out
}

// CheckResumes returns [ErrOnlyRead], with the names of the agents that resume transcripts,
// if this one does not.
func (a Agent) CheckResumes() error {
	if a.Resumes() {
		return nil
	}
	return fmt.Errorf("continue in %s: %w; %s resume transcripts", a.Name, ErrOnlyRead, listed(Resuming()))
}

// Folder returns the folder in which the agent looks for the transcripts of a folder of
// work, cwd, that begin at a time.
func (a Agent) Folder(h Home, cwd string, at time.Time) string {
	if !a.Resumes() {
		return ""
	}
	return a.folder(h, cwd, at)
}

// File returns where the agent looks for the transcript of a session.
func (a Agent) File(h Home, s *transcript.WrittenSession) string {
	if !a.Resumes() {
		return ""
	}
	return filepath.Join(a.folder(h, s.Cwd, s.Time.UTC()), a.file(s))
}

// Command returns the words of the command that resumes a transcript, to be run in its
// folder. model may be empty.
func (a Agent) Command(s *transcript.WrittenSession, file, model string) []string {
	if !a.Resumes() {
		return nil
	}
	return a.resume(s.TranscriptID(), file, model)
}

// Hooked returns the names of the agents that call a program at events.
func Hooked() (out []string) {
	for _, a := range All() {
		if a.hooks != nil {
			out = append(out, a.Name)
		}
	}
	return out
}

// HooksFile returns the file of an agent that says what it calls at events: settings of
// Claude Code and Codex, an extension of pi.
func (h Home) HooksFile(agent string) (string, error) {
	if a, ok := Find(agent); ok && a.hooks != nil {
		return a.hooks(h), nil
	}
	return "", fmt.Errorf("agent %q has no hooks; %s have", agent, listed(Hooked()))
}
