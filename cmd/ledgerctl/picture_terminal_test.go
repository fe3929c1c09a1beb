package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/plot"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// pictureColumns is the width of the terminal in the picture, in characters.
const pictureColumns = 100

// pictureCommands are what is typed in docs/pictures/terminal.svg. COMPACT stands for a
// compaction by the API with a fixed id, since ledgerctl compact makes a new id each time.
var pictureCommands = []string{
	`sessions --grep "lock file"`,
	`cost --by day --prices prices.toml`,
	`COMPACT`,
	`tree MBXMJHK0`,
	`lost MBXMJHK0 --kind errors,paths -n 3`,
}

// docs/pictures/terminal.svg shows what the commands print today, of the transcript that
// comes along; every line of output in it is the program's own.
func TestTerminalPicture(t *testing.T) {
	was := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = was })
	picture, err := filepath.Abs("../../docs/pictures/terminal.svg")
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	t.Chdir(t.TempDir())
	for name, content := range map[string][]byte{"session.jsonl": quickstart.Transcript,
		"prices.toml": []byte("[[model]]\nname = \"recorded-by-hand\"\nprice_input = 3\nprice_output = 15\n")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, stop, err := local.Start(t.Context(), newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard, Quiet: true}).Terminal, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	args := []string{"--server", c.Conn().ConnectedUrl(), "--creds", filepath.Join(data, "users", "operator.nk")}
	call := func(line string) string {
		var out bytes.Buffer
		e := newEnv(&terminal.Terminal{Out: &out, Err: &out, Width: pictureColumns})
		root := commands(e)
		root.SetArgs(append(args, splitLine(line)...))
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		if e.NC != nil {
			e.NC.Close()
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, &out)
		}
		return out.String()
	}
	call("import session.jsonl --final")
	for strings.Contains(call(`search "lock file"`), "not searched yet") { // the index of words is made beside
	}
	var lines []pictureLine
	for _, line := range pictureCommands {
		if line == "COMPACT" {
			if _, err := c.Compact(t.Context(), turns.MustParseID("01M7XSAQ93XSCADM8TMBXMJHK0"), api.RunCompaction{ID: fixedID("G08SZHP3")}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if len(lines) > 0 {
			lines = append(lines, pictureLine{})
		}
		lines = append(lines, pictureLine{text: "$ ledgerctl " + line, typed: true})
		for l := range strings.Lines(call(line)) {
			l = strings.TrimRight(ansi.ReplaceAllString(l, ""), " \n")
			if n := len([]rune(l)); n > pictureColumns {
				t.Errorf("%s prints a line of %d characters: %s", line, n, l)
			}
			lines = append(lines, pictureLine{text: l})
		}
	}
	checkPicture(t, picture, func(w io.Writer) error { return drawTerminal(w, lines) })
}

// splitLine splits a command; quotes keep a word together.
func splitLine(line string) (out []string) {
	for i, quoted := range strings.Split(line, `"`) {
		if i%2 == 1 {
			out = append(out, quoted)
		} else {
			out = append(out, strings.Fields(quoted)...)
		}
	}
	return out
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

type pictureLine struct {
	text  string
	typed bool
}

// drawTerminal draws lines as a terminal shows them.
func drawTerminal(w io.Writer, lines []pictureLine) error {
	const left, top, row, char = 14, 34, 15, 6.9
	height := top + row*len(lines) + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t">
<title id="t">A terminal with the commands and the output that the text below names</title>
<style>
.page{fill:#fbfbfb;stroke:#ccc}.out{fill:#333}.typed{fill:#0b5a9d;font-weight:600}.dot{fill:#ccc}
text{font:11.5px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}
@media (prefers-color-scheme:dark){.page{fill:#161616;stroke:#444}.out{fill:#ddd}.typed{fill:#7cc0ff}.dot{fill:#555}}
</style>
<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="6"/>
<circle class="dot" cx="16" cy="14" r="4"/>
<circle class="dot" cx="30" cy="14" r="4"/>
<circle class="dot" cx="44" cy="14" r="4"/>
`, plot.Width, height, plot.Width, height, plot.Width-1, height-1)
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		class := "out"
		if l.typed {
			class = "typed"
		}
		var escaped strings.Builder
		if err := xml.EscapeText(&escaped, []byte(l.text)); err != nil {
			return err
		}
		// The length is that of a terminal's cells, whatever font the viewer has.
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d" xml:space="preserve" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			class, left, top+row*i, char*float64(len([]rune(l.text))), escaped.String())
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
