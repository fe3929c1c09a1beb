package main

import (
	"fmt"
	"io/fs"
	"time"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/localserver"
	"nexus/cmd/internal/prose"
	"nexus/cmd/internal/watch"
)

// found is what an agent left in a folder.
type found struct {
	watch.Source
	files  int
	oldest time.Time // by the time of its last write
}

// foundTranscripts counts the transcripts that agents left on this machine. It reads none.
func foundTranscripts(h agents.Home) (out []found) {
	for _, s := range watch.DefaultSources(h) {
		x := found{Source: s}
		s.Each(func(_ string, info fs.FileInfo) {
			if x.files++; x.oldest.IsZero() || info.ModTime().Before(x.oldest) {
				x.oldest = info.ModTime()
			}
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
	if localserver.HasLedger(e.Local.Data) {
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
		fmt.Fprintf(e.Out, "  %d of %s, since %s, in %s\n", x.files, x.Agent, x.oldest.Local().Format(time.DateOnly), prose.Printable(x.Root))
		command += " " + prose.ShellWord(x.Root)
	}
	fmt.Fprintf(e.Out, "\nTo bring them into one, in %s:\n  %s\nThen: ledgerctl sessions, search TEXT, cost. ledgerctl help lists all verbs.\n", prose.Printable(e.Local.Data), command)
	return true
}
