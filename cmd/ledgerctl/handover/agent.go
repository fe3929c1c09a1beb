package handover

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns/interchange"
)

// Agent is a program that resumes transcripts.
type Agent struct {
	Name   string // as a person types it
	Format string // of its transcripts, in package interchange

	file    func(h Home, s *interchange.WrittenSession) string
	command func(id, file, model string) []string
}

// Home is where agents keep their files. Getenv is that of package os, or a test's.
type Home struct {
	Dir    string
	Getenv func(string) string
}

// folder is the folder that a variable of the environment names, else one below the home.
func (h Home) folder(variable string, below ...string) string {
	if dir := h.Getenv(variable); dir != "" && variable != "" {
		return dir
	}
	return filepath.Join(append([]string{h.Dir}, below...)...)
}

var notAlphanumeric = regexp.MustCompile(`[^a-zA-Z0-9]`)

// Agents returns the agents that can go on with a session. The places and commands are
// those of Claude Code 2.1, Codex 0.169, pi 0.73 and Gemini CLI 0.61.
func Agents() []Agent {
	return []Agent{
		{"claude", "claude-code", func(h Home, s *interchange.WrittenSession) string {
			return filepath.Join(h.folder("CLAUDE_CONFIG_DIR", ".claude"), "projects", notAlphanumeric.ReplaceAllString(s.Cwd, "-"), s.TranscriptID()+".jsonl")
		}, func(id, _, model string) []string {
			return with("--model", model, "claude", "--resume", id)
		}},
		{"codex", "codex", func(h Home, s *interchange.WrittenSession) string {
			at := s.Time.UTC()
			return filepath.Join(h.folder("CODEX_HOME", ".codex"), "sessions", at.Format("2006"), at.Format("01"), at.Format("02"), "rollout-"+at.Format("2006-01-02T15-04-05")+"-"+s.TranscriptID()+".jsonl")
		}, func(id, _, model string) []string {
			return with("--model", model, "codex", "resume", id)
		}},
		{"pi", "pi", func(h Home, s *interchange.WrittenSession) string {
			dir := h.Getenv("PI_CODING_AGENT_SESSION_DIR")
			if dir == "" {
				name := strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(strings.TrimLeft(s.Cwd, `/\`))
				dir = filepath.Join(h.folder("PI_CODING_AGENT_DIR", ".pi", "agent"), "sessions", "--"+name+"--")
			}
			return filepath.Join(dir, strings.NewReplacer(":", "-", ".", "-").Replace(s.Time.UTC().Format("2006-01-02T15:04:05.000Z"))+"_"+s.TranscriptID()+".jsonl")
		}, func(_, file, model string) []string {
			return with("--model", model, "pi", "--session", file)
		}},
		{"gemini", "gemini-cli", func(h Home, s *interchange.WrittenSession) string {
			dir := filepath.Join(h.folder("GEMINI_CLI_HOME"), ".gemini")
			return filepath.Join(dir, "tmp", geminiProject(dir, s.Cwd), "chats", "session-"+s.Time.UTC().Format("2006-01-02T15-04")+"-"+geminiID(s)+".json")
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

// geminiProject returns the name of a folder of work among those of Gemini CLI: the one in
// its list, else the hash that older versions use, which newer ones move.
func geminiProject(dir, cwd string) string {
	var list struct {
		Projects map[string]string `json:"projects"`
	}
	if b, err := os.ReadFile(filepath.Join(dir, "projects.json")); err == nil && json.Unmarshal(b, &list) == nil {
		if name := list.Projects[cwd]; name != "" && filepath.Base(name) == name {
			return name
		}
	}
	return interchange.ProjectHash(cwd)
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
func (a Agent) File(h Home, s *interchange.WrittenSession) string { return a.file(h, s) }

// Command returns the words of the command that resumes a transcript, to be run in its
// folder. model may be empty.
func (a Agent) Command(s *interchange.WrittenSession, file, model string) []string {
	return a.command(s.TranscriptID(), file, model)
}
