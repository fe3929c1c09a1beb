package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/localserver"
	"nexus/cmd/internal/prose"
)

// found is what an agent left in a folder.
type found struct {
	agents.Folder
	files  int
	oldest time.Time // by the time of its last write
}

// foundTranscripts counts the transcripts that agents left on this machine. It reads none.
func foundTranscripts(h agents.Home) (out []found) {
	for _, f := range h.Transcripts() {
		x := found{Folder: f}
		_ = filepath.WalkDir(f.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" && (f.Agent != agents.Gemini || !strings.HasPrefix(d.Name(), "session-")) {
				return nil
			}
			if info, err := d.Info(); err == nil {
				if x.files++; x.oldest.IsZero() || info.ModTime().Before(x.oldest) {
					x.oldest = info.ModTime()
				}
			}
			return nil
		})
		if x.files > 0 {
			out = append(out, x)
		}
	}
	return out
}

// welcome tells who has no ledger yet what it would bring in, and by which command. It reports whether there was
// something to tell.
func (e *env) welcome() bool {
	if e.Local == nil || e.ServerNamed || e.NATSContext != "" || localserver.Answers(e.Server) {
		return false
	}
	if _, err := os.Stat(filepath.Join(e.Local.Data, "ledger.json")); err == nil {
		return false
	}
	home, err := agents.OfUser()
	if err != nil {
		return false
	}
	all := foundTranscripts(home)
	if len(all) == 0 {
		return false
	}
	fmt.Fprintln(e.Out, "There is no ledger yet. On this machine are")
	command := "ledgerctl import"
	for _, x := range all {
		fmt.Fprintf(e.Out, "  %d of %s, since %s, in %s\n", x.files, x.Agent, x.oldest.Local().Format(time.DateOnly), prose.Printable(x.Dir))
		command += " " + prose.ShellWord(x.Dir)
	}
	fmt.Fprintf(e.Out, "\nTo bring them into one, in %s:\n  %s\nThen: ledgerctl sessions, search TEXT, cost. ledgerctl help lists all verbs.\n", prose.Printable(e.Local.Data), command)
	return true
}
