package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// manuals returns the man pages and the completions of shells, by their places below /usr/share.
// The pages are the help texts: those of ledgerctl stand word for word in docs/CLI.md.
func (r *release) manuals(ctx context.Context, programs []string) (out []file, err error) {
	quiet := []string{"HOME=/nonexistent", "NO_COLOR=1", "NEXUS_URL="}
	text, err := r.command(ctx, quiet, programs[0], "--help")
	if err != nil {
		return nil, err
	}
	add := func(name, section, about, text string) {
		out = append(out, page("man/man"+section+"/"+name+"."+section, r.manPage(name, section, about, text)))
	}
	add("nexusd", "8", "the daemon of a ledger for the conversations of AI agents", string(text))
	cli, err := os.ReadFile(filepath.Join(r.root, "docs", "CLI.md"))
	if err != nil {
		return nil, err
	}
	pages := helpPages(string(cli))
	if len(pages) < 2 {
		return nil, errors.New("docs/CLI.md has no help pages")
	}
	for _, p := range pages {
		name, about := "ledgerctl", "read, change and audit a ledger of AI agents' conversations"
		if p.verb != "" {
			name, about = "ledgerctl-"+p.verb, cmp.Or(shortOf(pages[0].text, p.verb), "a verb of ledgerctl")
		}
		add(name, "1", about, p.text)
	}
	for shell, path := range map[string]string{"bash": "bash-completion/completions/ledgerctl", "zsh": "zsh/vendor-completions/_ledgerctl", "fish": "fish/vendor_completions.d/ledgerctl.fish"} {
		script, err := r.command(ctx, quiet, programs[1], "completion", shell)
		if err != nil {
			return nil, err
		}
		out = append(out, page(path, script))
	}
	sortFiles(out)
	return out, nil
}

// helpPage is the help text of a verb; "" is that of the program.
type helpPage struct{ verb, text string }

var fenced = regexp.MustCompile("(?s)(?:\n## ([a-z-]+)\n)?\n```text\n(.*?)```\n")

// helpPages returns the help texts that docs/CLI.md has, in its order.
func helpPages(markdown string) (out []helpPage) {
	_, help, _ := strings.Cut(markdown, "<!-- help begin -->\n")
	for _, m := range fenced.FindAllStringSubmatch(help, -1) {
		out = append(out, helpPage{m[1], m[2]})
	}
	return out
}

// shortOf returns what the first page says of a verb, on its line alone.
func shortOf(first, verb string) string {
	m := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(verb) + `(?: [^ ]+)*  +(\S.*)$`).FindStringSubmatch(first)
	if m == nil {
		return ""
	}
	return m[1]
}

// manPage returns a help text as a page of man: the text as it is, and what apropos reads.
func (r *release) manPage(name, section, about, text string) []byte {
	var b strings.Builder
	b.WriteString(".TH " + strings.ToUpper(name) + " " + section + " " + r.date.Format("2006-01-02") + " \"nexus " + r.version + "\" Nexus\n")
	b.WriteString(".SH NAME\n" + roff(name) + " \\- " + roff(about) + "\n.SH DESCRIPTION\n.nf\n")
	for line := range strings.Lines(text) {
		b.WriteString(roff(line))
	}
	b.WriteString(".fi\n.SH SEE ALSO\n")
	others := map[string]string{"nexusd": ".BR ledgerctl (1)\n", "ledgerctl": ".BR nexusd (8)\n"}
	b.WriteString(cmp.Or(others[name], ".BR ledgerctl (1),\n.BR nexusd (8)\n"))
	return []byte(b.String())
}

// roff returns a line of text as man shows it: a minus that can be copied, and no line that
// is taken for a request.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
