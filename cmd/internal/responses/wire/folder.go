package wire

import (
	"net/http"
	"path"
	"strings"

	"nexus/turns"
)

// Work is where the client of a request works, as far as it says: what a new session records of its
// project.
type Work struct {
	Folder string // absolute; the header x-nexus-folder
	Remote string // of a repository, without credentials; the header x-nexus-project
}

// maxFolder is the most bytes of a folder or a remote.
const maxFolder = 4096

// readWork reads the headers of a request.
func readWork(h http.Header) (w Work, err error) {
	w.Folder = h.Get("X-Nexus-Folder")
	if w.Folder != "" && !isFolder(w.Folder) {
		return w, Invalid("x-nexus-folder", "The header x-nexus-folder is the absolute path of a folder, at most %d bytes.", maxFolder)
	}
	said := h.Get("X-Nexus-Project")
	if len(said) > maxFolder {
		return w, Invalid("x-nexus-project", "The header x-nexus-project is the remote of a repository, at most %d bytes.", maxFolder)
	}
	if w.Remote = turns.Remote(said); said != "" && w.Remote == "" {
		return w, Invalid("x-nexus-project", "The header x-nexus-project is the remote of a repository, as git prints it.")
	}
	return w, nil
}

// isFolder reports whether a text is an absolute path, of Windows too.
func isFolder(s string) bool {
	windows := len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/')
	return len(s) <= maxFolder && (path.IsAbs(s) || windows) && !strings.ContainsFunc(s, turns.IsHidden)
}

// statedFolder is the folder that a client states in its first messages, "" if it states none: Codex
// begins a conversation with <environment_context>, in which <cwd> is.
func statedFolder(ms []turns.Message) string {
	for i := range ms[:min(len(ms), 4)] {
		if ms[i].Role != turns.User {
			continue
		}
		for _, p := range ms[i].Parts {
			text, ok := strings.CutPrefix(strings.TrimSpace(p.Content), "<environment_context>")
			if p.Type != turns.Text || !ok {
				continue
			}
			_, rest, _ := strings.Cut(text, "<cwd>")
			if folder, _, ok := strings.Cut(rest, "</cwd>"); ok && isFolder(folder) {
				return folder
			}
		}
	}
	return ""
}

// MetaFor is the meta of a new session that begins with messages.
func (w Work) MetaFor(ms []turns.Message) (turns.Raw, error) {
	meta := map[string]any{"source": "responses"}
	if w.Folder == "" {
		w.Folder = statedFolder(ms)
	}
	if w.Folder != "" {
		meta["cwd"] = w.Folder
	}
	if w.Remote != "" {
		meta["project"] = turns.Project{Remote: w.Remote}
	}
	return turns.EncodeJSON(meta)
}
