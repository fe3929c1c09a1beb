package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nexus/cmd/internal/agents"
	"nexus/ledger/api/client"
)

// Config says what is followed, and how.
type Config struct {
	Sources []Source
	State   string // the folder of the state; created
	Ledger  string // names the ledger, tenant and agent; the state of another is not used
	// Connect returns a client that tries a call until its context ends. It is called until it
	// returns one.
	Connect func(context.Context) (*client.Client, error)
	Log     func(format string, args ...any) // takes a line for the operator: no content of a transcript is in it
	Rescan  time.Duration                    // between looks at all files, for what no notification told; 0: 30 s
	Settle  time.Duration                    // a file without a write for so long has ended; 0: one hour
	Workers int                              // files that are read at the same time; 0: 16
	Once    bool                             // end when everything that is there is in the ledger
	Polling bool                             // use no notifications of the file system
	// Closed is called between two turns, if the transcript was written to within ClosedWithin
	// (0: 10 s): later others may have changed the folder. The Keep that it returns, which may
	// be nil, is called once the turn is stored, or never. The file is not read further until
	// they return.
	Closed       func(context.Context, Closed) Keep
	ClosedWithin time.Duration

	// step is called between the steps of the work; tests end the process there.
	step     func(name string)
	saveEach bool // save the state at each commit
}

// Source is a folder of transcripts.
type Source struct {
	Agent string // a name of [agents.All]
	Root  string
}

// Validate returns an error that names what is wrong.
func (c *Config) Validate() error {
	var bad []error
	if len(c.Sources) == 0 {
		bad = append(bad, errors.New("no folder to watch"))
	}
	for _, s := range c.Sources {
		if a, ok := agents.Find(s.Agent); !ok || a.Name != s.Agent {
			bad = append(bad, fmt.Errorf("agent %q is none of %s", s.Agent, strings.Join(agents.Names(), ", ")))
		}
		if s.Root == "" {
			bad = append(bad, fmt.Errorf("the source of %s has no folder", s.Agent))
		}
	}
	if c.State == "" {
		bad = append(bad, errors.New("no folder for the state"))
	}
	for _, x := range []struct {
		name  string
		below bool
	}{{"rescan", c.Rescan < 0}, {"settle", c.Settle < 0}, {"workers", c.Workers < 0}} {
		if x.below {
			bad = append(bad, fmt.Errorf("%s is below 0", x.name))
		}
	}
	return errors.Join(bad...)
}

// DefaultSources returns the folders in which the agents of a user keep their transcripts.
// A folder need not be there yet.
func DefaultSources(h agents.Home) (out []Source) {
	for _, f := range h.Transcripts() {
		out = append(out, Source{f.Agent, f.Dir})
	}
	return out
}

// takes reports whether a file of the source is a transcript, by its path below the root.
func (s Source) takes(rel string) bool {
	if strings.HasPrefix(filepath.Base(rel), ".") {
		return false
	}
	a, _ := agents.Find(s.Agent)
	return a.Takes(rel)
}

// Each calls found with each transcript of the source. What can't be read is left out.
func (s Source) Each(found func(path string, info fs.FileInfo)) { _ = s.find(func(string) {}, found) }

// find calls found with each transcript of the source, and folder with each folder. A
// source that is not there has none.
func (s Source) find(folder func(string), found func(path string, info fs.FileInfo)) error {
	return s.findIn(s.Root, folder, found)
}

// findIn is [Source.find] of a folder of the source. A folder that can't be read hides no
// other: the error names it after all others were looked at.
func (s Source) findIn(dir string, folder func(string), found func(path string, info fs.FileInfo)) error {
	var unread []error
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error { // dir may be a link to a folder
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it went meanwhile, or was never there
		case err != nil:
			unread = append(unread, err)
			return nil
		case d.IsDir():
			folder(filepath.Clean(path))
			return nil
		}
		rel, err := filepath.Rel(s.Root, path)
		if err != nil || !s.takes(rel) {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = os.Stat(path)
		}
		if err != nil || !info.Mode().IsRegular() { // opening a pipe could take for ever
			return nil
		}
		found(path, info)
		return nil
	})
	return errors.Join(append(unread, err)...)
}
