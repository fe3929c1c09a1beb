package hooks

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/wholefile"
)

// Read returns a settings file, and the name behind it where it is a link; nothing for a
// file that is not there.
func Read(name string) (settings []byte, file string, err error) {
	file, err = filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, behind(name), nil
	}
	if err == nil {
		settings, err = os.ReadFile(file)
	}
	return settings, file, err
}

// behind returns the name behind a link to a file that is not there yet.
func behind(name string) string {
	for range 40 { // links may form a circle
		to, err := os.Readlink(name)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return name
}

// Write replaces a settings file that Read returned as before. A crash leaves the one
// before, or this one. The settings of before stay beside it, with the ending
// .before-nexus, unless they are there from an earlier change. It fails with [ErrSettings]
// if another program changed the file meanwhile.
func Write(file string, before, after []byte) error {
	if now, _, err := Read(file); err != nil || !bytes.Equal(now, before) {
		return errors.Join(ErrSettings, err, errors.New("another program changed them; try again"))
	}
	mode := fs.FileMode(0o600)
	if st, err := os.Stat(file); err == nil {
		mode = st.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(file + ".before-nexus"); before != nil && errors.Is(err, fs.ErrNotExist) {
		if err := wholefile.Write(file+".before-nexus", mode, wholefile.Bytes(before)); err != nil {
			return err
		}
	}
	return wholefile.Write(file, mode, wholefile.Bytes(after))
}

// Fired is when a hook ran last, and how it ended. It holds no content.
type Fired struct {
	Agent  string    `json:"agent"`
	Event  string    `json:"event"`
	Time   time.Time `json:"time"`
	TookMS int64     `json:"took_ms"`
	Failed string    `json:"failed,omitzero"`
}

// Note keeps that a hook fired, in a folder. Hooks of one event that end at the same time
// leave either.
func (f Fired) Note(dir string) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, fileName(f.Agent)+"-"+fileName(f.Event)+".json"), 0o600, wholefile.Bytes(b))
}

// fileName returns a word of an agent without what a file's name can't have.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s[:min(len(s), 40)])
}

// ReadFired returns what [Fired.Note] kept of an agent's event; false if it never fired.
func ReadFired(dir, agent, event string) (f Fired, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, fileName(agent)+"-"+fileName(event)+".json"))
	return f, err == nil && json.Unmarshal(b, &f) == nil
}
