package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/nexusd/internal/faulttest"
	"nexus/ledger/api"
)

// coreExamples are the programs that docs/GUIDE.md shows, by the language of its blocks.
var coreExamples = map[string]string{"go": "go/core/main.go", "python": "python/core.py", "js": "js/core.mjs"}

// The three programs of the guide's core print the same, which is what the guide says, and
// leave a sound ledger. Python runs with nats-py, or a stand-in for it; JavaScript where npm can
// install its library.
func TestCoreExamplesOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "GUIDE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, want, ok := strings.Cut(string(guide), "All three print the same:\n\n```text\n")
	want, _, ended := strings.Cut(want, "```")
	if !ok || !ended || want == "" {
		t.Fatal("the guide does not say what the programs print")
	}
	examples, err := filepath.Abs(filepath.Join(root, "docs", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	standIn, err := filepath.Abs(filepath.Join("testdata", "python"))
	if err != nil {
		t.Fatal(err)
	}
	d, c := startDaemon(t, config.Config{Auth: "off"})
	for language, command := range map[string]func(*testing.T) *exec.Cmd{
		"go": func(t *testing.T) *exec.Cmd {
			return exec.Command(faulttest.Build(t, filepath.Join(examples, "go", "core")))
		},
		"python": func(t *testing.T) *exec.Cmd {
			python, err := exec.LookPath("python3")
			if err != nil {
				t.Skip("SKIPPED: docs/examples/python/core.py was not run, python3 is not here")
			}
			cmd := exec.Command(python, "-B", filepath.Join(examples, "python", "core.py"))
			if out, err := exec.Command(python, "-c", "import nats").CombinedOutput(); err != nil {
				t.Logf("with the stand-in, nats-py is not here: %s", bytes.TrimSpace(out))
				cmd.Env = append(os.Environ(), "PYTHONPATH="+standIn)
			}
			return cmd
		},
		"js": func(t *testing.T) *exec.Cmd {
			if _, err := exec.LookPath("npm"); err != nil {
				t.Skip("SKIPPED: docs/examples/js/core.mjs was not run, npm is not here")
			}
			dir := t.TempDir()
			for _, f := range []string{"core.mjs", "package.json"} {
				copyFile(t, filepath.Join(examples, "js", f), filepath.Join(dir, f))
			}
			install := exec.Command("npm", "install", "--no-audit", "--no-fund", "--silent")
			install.Dir = dir
			if out, err := install.CombinedOutput(); err != nil {
				t.Skipf("SKIPPED: docs/examples/js/core.mjs was not run, npm install: %v\n%s", err, out)
			}
			return exec.Command("node", filepath.Join(dir, "core.mjs"))
		},
	} {
		t.Run(language, func(t *testing.T) {
			cmd := command(t)
			if cmd.Env == nil {
				cmd.Env = os.Environ()
			}
			cmd.Env = append(cmd.Env, "NEXUS_URL="+d.ClientURL(), "NEXUS_CREDS=")
			var out, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s%s", err, &out, &stderr)
			}
			if out.String() != want {
				t.Errorf("it prints\n%swant\n%s", &out, want)
			}
		})
	}
	if v, err := c.As(api.Operator).Verify(t.Context()); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// Each block of the guide's core stands in the program of its language as it is, but for the
// indentation, and each step has all three.
func TestTheGuideShowsItsCoreExamplesAsTheyAre(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(root, "docs", "GUIDE.md"))
	if err != nil {
		t.Fatal(err)
	}
	core, _, ok := strings.Cut(string(guide), "\n## Beside the turns\n")
	if !ok {
		t.Fatal("the guide has no end of its core")
	}
	flush := func(text string) string { // without the indentation, line by line
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
		return b.String()
	}
	blocks := make(map[string]int)
	for language, file := range coreExamples {
		program, err := os.ReadFile(filepath.Join(root, "docs", "examples", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for i, rest := range strings.Split(core, "\n```"+language+"\n") {
			block, _, ended := strings.Cut(rest, "\n```\n")
			switch {
			case i == 0:
			case !ended:
				t.Fatalf("a block of %s does not end", language)
			case !strings.Contains(flush(string(program)), flush(block+"\n")):
				t.Errorf("%s has no\n%s", file, block)
			default:
				blocks[language]++
			}
		}
	}
	steps := strings.Count(core, "\n### ")
	for language := range coreExamples {
		if blocks[language] != steps || steps < 8 {
			t.Errorf("%d steps, %d blocks of %s", steps, blocks[language], language)
		}
	}
}
