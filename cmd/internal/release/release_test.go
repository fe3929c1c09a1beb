package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 27, 5, 0, 0, 0, time.UTC)

func TestVersionsThatAreTaken(t *testing.T) {
	for version, want := range map[string]bool{"0.1.0": true, "1.20.3": true, "0.1.0-rc.1": true, "v0.1.0": false, "0.1": false, "01.0.0": false, "0.1.0+x": false, "0.1.0 ": false, "0.1.0-": false, "": false} {
		if versions.MatchString(version) != want {
			t.Errorf("version %q: taken is %v", version, !want)
		}
	}
}

// The same files make the same bytes in any order, and each folder comes before what is in it.
func TestArchivesFollowFromTheirFiles(t *testing.T) {
	files := []file{page("b/c", []byte("1")), {path: "a/d", mode: 0o755, data: []byte("22")}, {path: "b/e/", mode: 0o700, owner: imageUser}}
	first, err := pack(files, now)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	if second, err := pack(files, now); err != nil || !bytes.Equal(first, second) {
		t.Error("another order makes other bytes", err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(now) || h.Uid != h.Gid || h.Uid != map[bool]int{true: imageUser}[h.Name == "b/e/"] {
			t.Errorf("%s: time %v, owner %d:%d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
		got = append(got, h.Name)
	}
	if want := []string{"a/", "a/d", "b/", "b/c", "b/e/"}; !slices.Equal(got, want) {
		t.Errorf("the archive has %q, not %q", got, want)
	}
}

// Every help page of docs/CLI.md becomes a page of man, with its line of the first page.
func TestManualHasEveryHelpPage(t *testing.T) {
	cli, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "CLI.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, help, _ := strings.Cut(string(cli), "<!-- help begin -->")
	pages := helpPages(string(cli))
	if want := strings.Count(help, "\n## ") + 1; len(pages) != want {
		t.Errorf("%d pages of %d", len(pages), want)
	}
	if pages[0].verb != "" || !strings.HasPrefix(pages[1].text, "ledgerctl "+pages[1].verb) {
		t.Errorf("the first pages are %q and %q", pages[0].verb, pages[1].text)
	}
	for verb, want := range map[string]string{"watch": "import transcripts as agents write; status, doctor", "fork": "a new session that starts at a turn of another", "nats-context": ""} {
		if got := shortOf(pages[0].text, verb); got != want {
			t.Errorf("%s is %q, not %q", verb, got, want)
		}
	}
}

func TestManPageShowsTheTextAsItIs(t *testing.T) {
	r := &release{version: "0.1.0", date: now}
	got := string(r.manPage("nexusd", "8", "the daemon", "Runs.\n.dot 'a' --flag C:\\x\n'quote\n"))
	want := ".TH NEXUSD 8 2026-11-27 \"nexus 0.1.0\" Nexus\n.SH NAME\nnexusd \\- the daemon\n.SH DESCRIPTION\n.nf\n" +
		"Runs.\n\\&.dot \\(aqa\\(aq \\-\\-flag C:\\ex\n\\(aqquote\n.fi\n.SH SEE ALSO\n.BR ledgerctl (1)\n"
	if got != want {
		t.Errorf("the page is\n%s\nnot\n%s", got, want)
	}
}

func TestSBOMNamesEveryModule(t *testing.T) {
	r := &release{version: "0.1.0", commit: "abc", date: now}
	b, err := r.sbom(platform{"linux", "arm64"}, []debug.Module{{Path: "example.com/a/v2", Version: "v2.1.0", Sum: "h1:x"}, {Path: "std", Version: "1.26.8"}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		SpecVersion  string
		Metadata     struct{ Timestamp string }
		Components   []struct{ PURL string }
		Dependencies []struct{ DependsOn []string }
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/example.com/a/v2@v2.1.0", "pkg:golang/std@1.26.8"}
	if got.SpecVersion != "1.6" || got.Metadata.Timestamp != "2026-11-27T05:00:00Z" || len(got.Components) != 2 || got.Components[0].PURL != want[0] || !slices.Equal(got.Dependencies[0].DependsOn, want) {
		t.Errorf("the list is %s", b)
	}
}

// A module without a licence stops the release.
func TestNoticesNeedALicence(t *testing.T) {
	r := &release{root: ".", log: t.Output()}
	b, err := r.notices(t.Context(), []debug.Module{{Path: "github.com/goreleaser/nfpm/v2", Version: "v2.45.2"}, {Path: "std", Version: "1.26.8"}})
	if err != nil || !bytes.Contains(b, []byte("MIT License")) || !bytes.Contains(b, []byte("\nstd 1.26.8, LICENSE\n")) {
		t.Errorf("%.300s, %v", b, err)
	}
	if _, err := r.notices(t.Context(), []debug.Module{{Path: "example.invalid/none", Version: "v0.0.1"}}); err == nil {
		t.Error("a module that is not there has a licence")
	}
}
