package handover

import (
	"encoding/hex"
	"path/filepath"
	"strings"

	"nexus/cmd/internal/agents"
	"nexus/turns/interchange"
)

// Agent is a program that resumes transcripts.
type Agent struct {
	Name   string // as a person types it
	Format string // of its transcripts, in package interchange

	file    func(s *interchange.WrittenSession) string // its name in the folder that the agent looks in
	command func(id, file, model string) []string
}

// Agents returns the agents that can go on with a session. The places and commands are
// those of Claude Code 2.1, Codex 0.169, pi 0.73 and Gemini CLI 0.61.
func Agents() []Agent {
	return []Agent{
		{agents.Claude, "claude-code", func(s *interchange.WrittenSession) string {
			return s.TranscriptID() + ".jsonl"
		}, func(id, _, model string) []string {
			return with("--model", model, "claude", "--resume", id)
		}},
		{agents.Codex, "codex", func(s *interchange.WrittenSession) string {
			return "rollout-" + s.Time.UTC().Format("2006-01-02T15-04-05") + "-" + s.TranscriptID() + ".jsonl"
		}, func(id, _, model string) []string {
			return with("--model", model, "codex", "resume", id)
		}},
		{agents.Pi, "pi", func(s *interchange.WrittenSession) string {
			return strings.NewReplacer(":", "-", ".", "-").Replace(s.Time.UTC().Format("2006-01-02T15:04:05.000Z")) + "_" + s.TranscriptID() + ".jsonl"
		}, func(_, file, model string) []string {
			return with("--model", model, "pi", "--session", file)
		}},
		{agents.Gemini, "gemini-cli", func(s *interchange.WrittenSession) string {
			return "session-" + s.Time.UTC().Format("2006-01-02T15-04") + "-" + geminiID(s) + ".json"
		}, func(id, _, model string) []string {
			return with("--model", model, "gemini", "--resume", id)
		}},
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
func geminiID(s *interchange.WrittenSession) string {
	id := hex.EncodeToString(s.ID[:])
	return id[len(id)-8:]
}

// Find returns the agent of a name.
func Find(name string) (Agent, bool) {
	for _, a := range Agents() {
		if a.Name == name {
			return a, true
		}
	}
	return Agent{}, false
}

// Names returns the names of all agents.
func Names() (out []string) {
	for _, a := range Agents() {
		out = append(out, a.Name)
	}
	return out
}

// File returns where the agent looks for the transcript of a session.
func (a Agent) File(h agents.Home, s *interchange.WrittenSession) string {
	return filepath.Join(h.TranscriptsOf(a.Name, s.Cwd, s.Time.UTC()), a.file(s))
}

// Command returns the words of the command that resumes a transcript, to be run in its
// folder. model may be empty.
func (a Agent) Command(s *interchange.WrittenSession, file, model string) []string {
	return a.command(s.TranscriptID(), file, model)
}
