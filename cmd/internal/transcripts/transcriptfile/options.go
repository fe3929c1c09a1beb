package transcriptfile

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/claude"
	"nexus/turns/transcript/gemini"
)

// spawners say, by format, how the files beside one tell who started the sub-agent that it is
// of.
var spawners = map[string]func(name string, opt *transcript.Options){
	"claude-code": func(name string, opt *transcript.Options) { opt.SpawnedBy = claudeSpawner(name) },
	"gemini-cli":  geminiSpawner,
}

// ReadOptions returns how a file is read, beyond what a caller asks: of a sub-agent, who
// started it.
func ReadOptions(name, format string, opt transcript.Options) transcript.Options {
	if !IsStream(name) {
		opt.Name = filepath.Base(name)
	}
	if find := spawners[format]; find != nil && !IsStream(name) {
		find(name, &opt)
	}
	return opt
}

// geminiSpawner finds who started the sub-agent of a file of Gemini CLI: the file may say it,
// or stand in a folder that has the name of the session which started it.
func geminiSpawner(name string, opt *transcript.Options) {
	h, ok := geminiHead(name)
	if !ok || !h.Subagent {
		return
	}
	dir := filepath.Dir(name)
	for _, try := range []struct{ session, dir string }{
		{h.Spawner, dir}, {h.Spawner, filepath.Dir(dir)}, {filepath.Base(dir), filepath.Dir(dir)}, {h.Session, dir},
	} {
		if try.session == "" {
			continue
		}
		if f := geminiChat(try.dir, try.session, name); f != "" {
			if in, err := os.Open(f); err == nil {
				opt.SpawnedBy = gemini.Spawner(bufio.NewReader(in), h.Session)
				in.Close()
			}
			opt.Spawner = try.session
			return
		}
	}
	if parent := filepath.Base(filepath.Dir(dir)); parent == "chats" {
		opt.Spawner = filepath.Base(dir)
	}
}

// geminiChat returns the file in a folder that is the chat of a session, not a sub-agent's
// and not the file except; "" for none. Gemini CLI puts the beginning of the session's id
// into the file's name, so only those with it are read.
func geminiChat(dir, session, except string) string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Name())
		if name == except || !isTranscriptName(name) || !strings.Contains(f.Name(), session[:min(len(session), 8)]) {
			continue
		}
		if h, ok := geminiHead(name); ok && h.Session == session && !h.Subagent {
			return name
		}
	}
	return ""
}

// geminiHead reads the beginning of a chat of Gemini CLI.
func geminiHead(name string) (gemini.Head, bool) {
	f, err := os.Open(name)
	if err != nil {
		return gemini.Head{}, false
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return gemini.Head{}, false
	}
	return gemini.ReadHead(head[:n])
}

// claudeSpawner returns the turn that started the sub-agent of a file of Claude Code; zero
// if the files beside it do not say. Sub-agents have a folder of their own in that of their
// main session, or in older versions stand beside it, also those that another sub-agent started. A file beside each names the
// call; else the result of the call names the sub-agent.
func claudeSpawner(name string) (by turns.Ref) {
	dir, base := filepath.Dir(name), filepath.Base(name)
	agent, ok := strings.CutPrefix(strings.TrimSuffix(base, ".jsonl"), "agent-")
	if !ok || agent == "" || !strings.HasSuffix(base, ".jsonl") {
		return by
	}
	var meta struct {
		Call string `json:"toolUseId"`
	}
	if b, err := os.ReadFile(strings.TrimSuffix(name, ".jsonl") + ".meta.json"); err == nil {
		_ = json.Unmarshal(b, &meta) // another form: the results may say it
	}
	word := cmp.Or(meta.Call, agent)
	siblings, _ := filepath.Glob(filepath.Join(dir, "agent-*.jsonl")) // a folder with a bad name has none
	mains := []string{filepath.Dir(dir) + ".jsonl"}
	if session := claudeSession(name); session != "" { // older versions put both into one folder
		mains = append(mains, filepath.Join(dir, session+".jsonl"))
	}
	for _, f := range append(mains, siblings...) {
		if f == name || !holds(f, word) {
			continue
		}
		in, err := os.Open(f)
		if err != nil {
			continue
		}
		by = claude.Spawner(bufio.NewReader(in), meta.Call, agent)
		in.Close()
		if !by.IsZero() {
			return by
		}
	}
	return by
}

// claudeSession returns the id of the session that a file of Claude Code is of, by its first line;
// "" if that says none.
func claudeSession(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var l struct {
		Session string `json:"sessionId"`
	}
	line, _ := bufio.NewReader(io.LimitReader(f, 1<<20)).ReadBytes('\n')
	if json.Unmarshal(line, &l) != nil || l.Session != filepath.Base(l.Session) {
		return ""
	}
	return l.Session
}

// holds reports whether a line of a file has a word in quotes.
func holds(name, word string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	quoted, buf, kept := []byte(`"`+word+`"`), make([]byte, 256<<10), 0
	for {
		n, err := io.ReadFull(f, buf[kept:])
		b := buf[:kept+n]
		if bytes.Contains(b, quoted) {
			return true
		}
		if err != nil {
			return false
		}
		kept = copy(buf, b[len(b)-len(quoted):])
	}
}
