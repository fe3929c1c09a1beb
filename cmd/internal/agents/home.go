package agents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns/transcript/gemini"
)

// The environment variables that name folders of the agents.
const (
	claudeConfig = "CLAUDE_CONFIG_DIR"
	codexHome    = "CODEX_HOME"
	piAgent      = "PI_CODING_AGENT_DIR"
	piSession    = "PI_CODING_AGENT_SESSION_DIR"
	geminiHome   = "GEMINI_CLI_HOME"
)

// Home is where a user's agents keep their files.
type Home struct {
	Dir    string              // the user's home
	Getenv func(string) string // as that of package os
}

// OfUser returns the home of the user who runs this process.
func OfUser() (Home, error) {
	dir, err := os.UserHomeDir()
	return Home{dir, os.Getenv}, err
}

// folder returns the folder that a variable names, else one below the home.
func (h Home) folder(variable string, below ...string) string {
	if dir := h.Getenv(variable); dir != "" {
		return dir
	}
	return filepath.Join(append([]string{h.Dir}, below...)...)
}

// expanded returns a path as pi reads it: ~ is the home.
func (h Home) expanded(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		return filepath.Join(h.Dir, rest)
	}
	return path
}

func (h Home) claude() string { return h.folder(claudeConfig, ".claude") }

func (h Home) codex() string { return h.folder(codexHome, ".codex") }

func (h Home) pi() string { return h.expanded(h.folder(piAgent, ".pi", "agent")) }

func (h Home) gemini() string { return filepath.Join(h.folder(geminiHome), ".gemini") }

// piSessions returns the one folder that pi keeps all sessions in, by its variable or the
// settings in these files, the first that has one; "" where it has a folder for each
// folder of work. A relative path is one in the folder of work, which cwd is.
func (h Home) piSessions(cwd string, settings ...string) string {
	dir := h.Getenv(piSession)
	for _, file := range settings {
		var s struct {
			Dir string `json:"sessionDir"`
		}
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, &s) == nil && dir == "" {
			dir = s.Dir
		}
	}
	if dir = h.expanded(dir); dir == "" || filepath.IsAbs(dir) {
		return dir
	}
	if cwd == "" {
		return ""
	}
	return filepath.Join(cwd, dir)
}

// Folder is a folder of transcripts, with those below it.
type Folder struct {
	Agent string
	Dir   string
}

// Transcripts returns the folders in which the agents keep their transcripts. A folder need
// not be there. One that pi's settings of a project name is not among them.
func (h Home) Transcripts() (out []Folder) {
	for _, a := range All() {
		for _, dir := range a.transcripts(h) {
			out = append(out, Folder{a.Name, dir})
		}
	}
	return out
}

var notAlphanumeric = regexp.MustCompile(`[^a-zA-Z0-9]`)

// piFolder returns the folder in which pi looks for the sessions of a folder of work.
func (h Home) piFolder(cwd string) string {
	if dir := h.piSessions(cwd, filepath.Join(cwd, ".pi", "settings.json"), filepath.Join(h.pi(), "settings.json")); dir != "" {
		return dir
	}
	name := strings.NewReplacer("/", "-", `\`, "-", ":", "-").Replace(strings.TrimLeft(cwd, `/\`))
	return filepath.Join(h.pi(), "sessions", "--"+name+"--")
}

// geminiProject returns the name of a folder of work among those of Gemini CLI: the one in
// its list, else the hash that older versions use, which newer ones move.
func (h Home) geminiProject(cwd string) string {
	var list struct {
		Projects map[string]string `json:"projects"`
	}
	if b, err := os.ReadFile(filepath.Join(h.gemini(), "projects.json")); err == nil && json.Unmarshal(b, &list) == nil {
		if name := list.Projects[cwd]; name != "" && filepath.Base(name) == name {
			return name
		}
	}
	return gemini.ProjectHash(cwd)
}
