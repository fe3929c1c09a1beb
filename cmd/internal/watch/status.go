package watch

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nexus/turns"
)

// Status is what is known of a watch without asking its process.
type Status struct {
	Running bool           `json:"running"`
	Process int            `json:"process,omitzero"`
	Ledger  string         `json:"ledger,omitzero"`
	Started time.Time      `json:"started,omitzero"`
	Saved   time.Time      `json:"saved,omitzero"` // when the watch wrote what is here
	Waiting string         `json:"waiting,omitzero"`
	Limited string         `json:"limited,omitzero"`
	Sources []SourceStatus `json:"sources"`
	Failed  []FailedFile   `json:"failed"`
	Events  []Event        `json:"events"`
}

// SourceStatus is what is known of one folder.
type SourceStatus struct {
	Agent     string    `json:"agent"`
	Folder    string    `json:"folder"`
	Missing   bool      `json:"missing,omitzero"` // there is no such folder
	Files     int       `json:"files"`
	Behind    int       `json:"behind"`       // files that are not in the ledger as they are now
	Bytes     int64     `json:"bytes_behind"` // of them, half lines included
	Open      int       `json:"open"`         // files that may grow: a last turn without its whole answer waits for it
	Failed    int       `json:"failed"`
	Gone      int       `json:"gone"`            // files that vanished; the ledger has them
	Erased    int       `json:"erased,omitzero"` // files that are not read any more, as their sessions were erased
	Delivered time.Time `json:"delivered,omitzero"`
}

// FailedFile is a file that is not in the ledger as a whole, and why.
type FailedFile struct {
	File string    `json:"file"`
	Why  string    `json:"why"`
	Time time.Time `json:"time"`
}

// Pending is a file that a watch would read.
type Pending struct {
	File  string `json:"file"`
	Agent string `json:"agent"`
	Bytes int64  `json:"bytes"` // that the state does not say are in the ledger
}

// ReadStatus compares the saved state of a watch with the files.
func ReadStatus(dir string, sources []Source) (*Status, error) {
	s, running, err := ReadState(dir)
	if s == nil {
		s = newState("") // as a watch does with a state that it can't read
	}
	out := &Status{Running: running, Ledger: s.Ledger, Started: s.Started, Saved: s.Saved, Waiting: s.Waiting, Limited: s.Limited, Sources: []SourceStatus{}, Failed: []FailedFile{}, Events: slices.Clone(s.Events)}
	if out.Events == nil {
		out.Events = []Event{}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		out.Failed = append(out.Failed, FailedFile{File: stateFile(dir), Why: err.Error(), Time: time.Now()})
	}
	if running {
		out.Process = s.Process
	}
	for _, src := range sources {
		x := SourceStatus{Agent: src.Agent, Folder: src.Root}
		if _, err := os.Stat(src.Root); errors.Is(err, fs.ErrNotExist) {
			x.Missing = true
		}
		err := src.find(func(string) {}, func(path string, info fs.FileInfo) {
			x.Files++
			if s.isErased(path, info) {
				x.Erased++
				return
			}
			st := s.Files[path]
			if n := behind(st, info); n > 0 {
				x.Behind++
				x.Bytes += n
			}
			if st != nil && !st.Final && st.Failed == "" {
				x.Open++
			}
		})
		if err != nil { // of folders below; the rest is known
			out.Failed = append(out.Failed, FailedFile{src.Root, err.Error(), time.Now()})
		}
		for path, st := range s.Files {
			if rel, err := filepath.Rel(src.Root, path); err != nil || !filepath.IsLocal(rel) || !src.takes(rel) {
				continue
			}
			if !st.Gone.IsZero() {
				x.Gone++
			}
			if st.Failed != "" {
				x.Failed++
				out.Failed = append(out.Failed, FailedFile{path, st.Failed, st.FailedAt})
			}
			if st.Delivered.After(x.Delivered) {
				x.Delivered = st.Delivered
			}
		}
		out.Sources = append(out.Sources, x)
	}
	slices.SortFunc(out.Failed, func(a, b FailedFile) int { return strings.Compare(a.File, b.File) })
	return out, nil
}

// VanishedFile is a transcript that is no longer in the folder of its agent. The ledger has what
// was stored of it.
type VanishedFile struct {
	File      string    `json:"file"`
	Agent     string    `json:"agent"`
	Session   turns.ID  `json:"session,omitzero"` // one of the sessions that it held
	Bytes     int64     `json:"bytes"`            // of it that are in the ledger
	Lost      int64     `json:"lost,omitzero"`    // bytes that it had when it was read last, and that are not in the ledger
	Gone      time.Time `json:"gone,omitzero"`    // when it was first missing; zero: since the watch ran last
	Delivered time.Time `json:"delivered,omitzero"`
}

// Vanished returns the files that a watch or an import has read and that are not there now, the
// newest last.
func Vanished(dir string, sources []Source) (out []VanishedFile, err error) {
	s, _, err := ReadState(dir)
	if s == nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	for path, st := range s.Files {
		taken := slices.ContainsFunc(sources, func(src Source) bool {
			rel, err := filepath.Rel(src.Root, path)
			return err == nil && filepath.IsLocal(rel) && src.takes(rel)
		})
		if _, err := os.Lstat(path); !taken || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out = append(out, VanishedFile{File: path, Agent: st.Agent, Session: st.session(), Bytes: st.Offset, Lost: max(0, st.Size-st.Offset), Gone: st.Gone, Delivered: st.Delivered})
	}
	slices.SortFunc(out, func(a, b VanishedFile) int {
		return cmp.Or(a.Delivered.Compare(b.Delivered), strings.Compare(a.File, b.File))
	})
	return out, nil
}

// behind returns how many bytes of a file are not in the ledger.
func behind(st *FileState, info fs.FileInfo) int64 {
	switch {
	case st == nil:
		return info.Size()
	case st.sameFile(info) && st.Failed == "":
		return 0
	}
	return max(info.Size()-st.Offset, 1)
}

// Missing returns the folders of sources that do not exist.
func Missing(sources []Source) (folders []string) {
	for _, s := range sources {
		if _, err := os.Stat(s.Root); errors.Is(err, fs.ErrNotExist) {
			folders = append(folders, s.Root)
		}
	}
	return folders
}

// Plan returns the files that a watch with this state would read, the one that was written to
// last first. It changes nothing and asks no ledger. With an error, those of the folders that
// can be read.
func Plan(cfg Config) ([]Pending, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := loadState(cfg.State)
	if err != nil || s.Ledger != cfg.Ledger {
		s = newState(cfg.Ledger) // it would be forgotten
	}
	out, written := []Pending{}, make(map[string]time.Time)
	var unread error
	for _, src := range cfg.Sources {
		err := src.find(func(string) {}, func(path string, info fs.FileInfo) {
			if n := behind(s.Files[path], info); n > 0 && !s.isErased(path, info) {
				written[path] = info.ModTime()
				out = append(out, Pending{path, src.Agent, n})
			}
		})
		unread = errors.Join(unread, err)
	}
	slices.SortStableFunc(out, func(a, b Pending) int { return written[b.File].Compare(written[a.File]) })
	return out, unread
}
