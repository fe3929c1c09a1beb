package main

import (
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
)

// A refresh of real transcripts right after their import changes nothing.
func TestRefreshOfRealTranscriptsChangesNothing(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data")
	var files []transcriptfile.File
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) == ".jsonl" {
			if info, err := d.Info(); err == nil && info.Size() < 3<<20 {
				files = append(files, transcriptfile.File{Name: name, Searched: true})
			}
		}
		return nil
	})
	if len(files) == 0 {
		t.Skip("no real transcripts at " + root)
	}
	if len(files) > 60 {
		files = files[:60]
	}
	c, stop, err := local.Start(t.Context(), newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard}).Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, refresh := range []bool{false, true} {
		im := transcripts.Importer{Client: c, Format: "auto", Final: true, Refresh: refresh}
		for _, o := range im.Files(t.Context(), files) {
			if o.Err != nil {
				continue // of another format
			}
			if r := o.Report; refresh && r.Renewed+r.Stored+r.Older > 0 {
				t.Errorf("%s: %d renewed, %d stored", r.File, r.Renewed, r.Stored)
			}
		}
	}
}
