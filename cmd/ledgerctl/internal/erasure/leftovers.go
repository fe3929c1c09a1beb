package erasure

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/agents"
	"nexus/cmd/ledgerctl/internal/cli"
)

// lookAt bounds the bytes of transcripts that are looked at for a text.
const lookAt = 8 << 30

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

// filesWith returns the files in the agents' folders that have a text, as it is or as JSON escapes it.
// all: each was looked at.
func filesWith(ctx context.Context, home agents.Home, text string) (files []string, all bool) {
	forms := [][]byte{[]byte(text)}
	if b, err := json.Marshal(text); err == nil && len(b) > 2 && !bytes.Equal(b[1:len(b)-1], forms[0]) {
		forms = append(forms, b[1:len(b)-1])
	}
	all = true
	left, seen := int64(lookAt), make(map[string]bool)
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
			has, n, err := fileHas(name, forms)
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

// fileHas reports whether a file has one of some texts, and how many bytes of it were read.
func fileHas(name string, forms [][]byte) (has bool, read int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	keep := 0
	for _, b := range forms {
		keep = max(keep, len(b)-1)
	}
	buf := make([]byte, keep+1<<20)
	for had := 0; ; {
		n, err := io.ReadFull(f, buf[had:])
		read += int64(n)
		for _, b := range forms {
			if bytes.Contains(buf[:had+n], b) {
				return true, read, nil
			}
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
