package page

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

var (
	modules = flag.String("browser", "", "a node_modules folder with playwright-core and axe-core: run the pages in chromium")
	pages   = flag.String("pages", "", "a folder of further pages (.html) for -browser")
)

// The pages in a real browser, at two widths and in both themes: no request, no script, no
// message of the browser, nothing wider than the window, folds that a key opens, and no
// violation that axe finds.
func TestPagesInABrowser(t *testing.T) {
	if *modules == "" {
		t.Skip("needs -browser DIR/node_modules (npm install playwright-core axe-core), node and chromium")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: no node here: ", err)
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: no chromium here: ", err)
	}
	dir := t.TempDir()
	var files []string
	add := func(name string, p *Page) {
		file := filepath.Join(dir, name+".html")
		if err := os.WriteFile(file, []byte(htmlOf(t, p)), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	add("plain", wherever(t, "plain"))
	add("markdown", wherever(t, "# A heading\n\n| | wide wide wide wide wide wide | "+strings.Repeat("w", 200)+" |\n|-|-|-|\n| 1 | 2 | 3 |\n\n* [a link](https://example.com) and `code`\n\n> quoted\n\n```go\nfunc main() {}\n```\n"))
	add("hostile", wherever(t, strings.Join(hostile, "\n\n")))
	long := wherever(t, strings.Repeat("x", 10<<20))
	add("long", long)
	add("empty", pageOf(t, Options{}))
	picture := turnAt(1, "", "a picture")
	picture.Messages = []turns.Message{{Role: turns.User, Parts: []turns.Part{{Type: turns.Blob, MimeType: "image/gif", Data: []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")}}}}
	add("picture", pageOf(t, Options{}, picture))
	if *pages != "" {
		more, err := filepath.Glob(filepath.Join(*pages, "*.html"))
		if err != nil || len(more) == 0 {
			t.Fatalf("no pages in %s: %v", *pages, err)
		}
		files = append(files, more...)
	}
	cmd := exec.Command(node, append([]string{filepath.Join("testdata", "browser.mjs"), *modules, chromium}, files...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var wrong []struct {
		File   string `json:"file"`
		Scheme string `json:"colorScheme"`
		What   string `json:"what"`
		Width  int    `json:"width"`
	}
	if err := json.Unmarshal(out, &wrong); err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Errorf("%s, %d px, %s: %s", filepath.Base(w.File), w.Width, w.Scheme, w.What)
	}
	t.Logf("%d pages, each at two widths in two themes", len(files))
}
