package erasure

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nexus/cmd/internal/agents"
	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/cmd/ledgerctl/internal/cli"
)

// maxSearched bounds the bytes of transcripts that are searched for a text.
const maxSearched = 8 << 30

// nameFiles prints which transcripts in the folders of agents have a text still: they are not the
// ledger's, and whoever reads them has the text.
func nameFiles(ctx context.Context, e *cli.Env, text string) error {
	home, err := agents.OfUser()
	if err != nil {
		return nil // without a home there are no such folders
	}
	files, all := filesWith(ctx, home, text)
	if e.JSON && len(files) > 0 {
		return e.Print(map[string]any{"transcripts": files})
	}
	if len(files) > 0 {
		e.Say("transcripts of agents on this machine have it still, and their agents may send it again: edit or delete them")
	}
	for _, f := range files {
		e.Say("  %s", f)
	}
	if !all {
		e.Say("not all transcripts of agents on this machine could be looked at")
	}
	return nil
}

// filesWith returns the files in the agents' folders that have a text in one of the forms in which redact
// finds it. all: each was searched.
func filesWith(ctx context.Context, home agents.Home, text string) (files []string, all bool) {
	find := mark.NewText(text)
	all = true
	left, seen := int64(maxSearched), make(map[string]bool)
	for _, f := range home.Transcripts() {
		_ = filepath.WalkDir(f.Dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil || left <= 0:
				all = false
				return fs.SkipAll
			case err != nil && name == f.Dir:
				return nil // the agent is not used here
			case err != nil:
				all = false
				return nil
			case seen[name] || !d.Type().IsRegular():
				return nil
			}
			seen[name] = true
			has, n, err := fileHas(name, find)
			left -= n
			if has {
				files = append(files, name)
			}
			all = all && err == nil
			return nil
		})
	}
	return files, all
}

// fileHas reports whether a file has a text, and how many bytes of it were read.
func fileHas(name string, text *mark.Text) (has bool, read int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	keep := text.Longest()
	buf := make([]byte, keep+1<<20)
	for had := 0; ; {
		n, err := io.ReadFull(f, buf[had:])
		read += int64(n)
		if text.In(buf[:had+n]) {
			return true, read, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false, read, nil
		}
		if err != nil {
			return false, read, err
		}
		had = copy(buf, buf[had+n-keep:had+n])
	}
}
