package transcripts

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"

	"nexus/turns/interchange"
)

// ReadOptions returns how a file is read, beyond what a caller asks: of a sub-agent of
// Gemini CLI, who started it. Its file stands in a folder that has the name of the session
// which started it, next to that session's own file, and says nothing of it itself.
func ReadOptions(name, format string, opt interchange.Options) interchange.Options {
	if format != "gemini-cli" || isStream(name) {
		return opt
	}
	h, ok := geminiHead(name)
	if !ok || !h.Subagent {
		return opt
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
				opt.SpawnedBy = interchange.GeminiCLISpawner(bufio.NewReader(in), h.Session)
				in.Close()
			}
			opt.Spawner = try.session
			return opt
		}
	}
	if parent := filepath.Base(filepath.Dir(dir)); parent == "chats" {
		opt.Spawner = filepath.Base(dir)
	}
	return opt
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
func geminiHead(name string) (interchange.GeminiCLIHead, bool) {
	f, err := os.Open(name)
	if err != nil {
		return interchange.GeminiCLIHead{}, false
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return interchange.GeminiCLIHead{}, false
	}
	return interchange.ReadGeminiCLIHead(head[:n])
}
