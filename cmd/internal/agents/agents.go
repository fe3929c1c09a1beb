package agents

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"nexus/turns/transcript"
)

// Agent is a coding agent: where it keeps its transcripts and its settings, and how it is
// told to go on with a transcript.
type Agent struct {
	Name   string // as a person types it
	Format string // of its transcripts, in package formats

	variables   []string                                      // of the environment, that name its folders
	transcripts func(h Home) []string                         // the folders of its transcripts
	folder      func(h Home, cwd string, at time.Time) string // the one for a folder of work and a time
	file        func(s *transcript.WrittenSession) string     // the name of a transcript in it
	resume      func(id, file, model string) []string         // the command that resumes a transcript
	hooks       func(h Home) string                           // the file that says what it calls at events; nil: it calls nothing
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
			Name: Claude, Format: "claude-code", variables: []string{claudeConfig},
			transcripts: func(h Home) []string { return []string{filepath.Join(h.claude(), "projects")} },
			folder: func(h Home, cwd string, _ time.Time) string {
				return filepath.Join(h.claude(), "projects", notAlphanumeric.ReplaceAllString(cwd, "-"))
			},
			file:   func(s *transcript.WrittenSession) string { return s.TranscriptID() + ".jsonl" },
			resume: func(id, _, model string) []string { return with("--model", model, "claude", "--resume", id) },
			hooks:  func(h Home) string { return filepath.Join(h.claude(), "settings.json") },
		},
		{
			Name: Codex, Format: "codex", variables: []string{codexHome},
			transcripts: func(h Home) []string {
				return []string{filepath.Join(h.codex(), "sessions"), filepath.Join(h.codex(), "archived_sessions")}
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
			Name: Pi, Format: "pi", variables: []string{piAgent, piSession},
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
			Name: Gemini, Format: "gemini-cli", variables: []string{geminiHome},
			transcripts: func(h Home) []string { return []string{filepath.Join(h.gemini(), "tmp")} },
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

// Find returns the agent of a name.
func Find(name string) (Agent, bool) {
	for _, a := range All() {
		if a.Name == name {
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

// Folder returns the folder in which the agent looks for the transcripts of a folder of
// work, cwd, that begin at a time.
func (a Agent) Folder(h Home, cwd string, at time.Time) string { return a.folder(h, cwd, at) }

// File returns where the agent looks for the transcript of a session.
func (a Agent) File(h Home, s *transcript.WrittenSession) string {
	return filepath.Join(a.folder(h, s.Cwd, s.Time.UTC()), a.file(s))
}

// Command returns the words of the command that resumes a transcript, to be run in its
// folder. model may be empty.
func (a Agent) Command(s *transcript.WrittenSession, file, model string) []string {
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
	have := Hooked()
	return "", fmt.Errorf("agent %q has no hooks; %s and %s have", agent, strings.Join(have[:len(have)-1], ", "), have[len(have)-1])
}
