package searchview

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/ledger/api"
	"nexus/turns"
)

// Filter is what sessions --grep and the filters beside it ask for.
type Filter struct {
	Text, Since, Cwd, Branch, Project, Tag, Model, Source string
	Hidden                                                bool
	Limit                                                 int
}

func (g *Filter) Flags(f *pflag.FlagSet) {
	f.StringVar(&g.Text, "grep", "", "those with these words, best first")
	f.StringVar(&g.Since, "since", "", "with a turn from a time on: "+names.DayHelp)
	f.StringVar(&g.Cwd, "cwd", "", "those in this folder or below; one without a / before it is below the current folder")
	f.StringVar(&g.Branch, "branch", "", "those on this branch of git")
	f.StringVar(&g.Project, "project", "", "those of this repository: its name, or a folder of it")
	f.StringVar(&g.Tag, "tag", "", "those with this tag")
	f.BoolVar(&g.Hidden, "hidden", false, "hidden sessions too")
	f.StringVar(&g.Model, "model", "", "those of this model")
	f.StringVar(&g.Source, "source", "", "those of this program, such as claude-code or codex")
	f.IntVarP(&g.Limit, "limit", "n", 20, "at most so many: the best with --grep (20 without a number), else those whose newest turn is the newest; 0: all")
}

// Resolve reads what the flags name: since, and the folder as sessions record it.
func (g *Filter) Resolve() (since *api.Time, err error) {
	if g.Cwd, err = names.Folder(g.Cwd); err != nil {
		return nil, err
	}
	g.Project = names.Project(g.Project)
	return names.Day("since", g.Since)
}

// Described says which sessions the filters leave, as "in /srv/shop, of codex, from … on".
func (g *Filter) Described(since *api.Time) string {
	var out []string
	for _, x := range []struct{ word, value string }{{"in", g.Cwd}, {"on branch", g.Branch}, {"of project", g.Project}, {"with the tag", g.Tag}, {"of model", g.Model}, {"of", g.Source}} {
		if x.value != "" {
			out = append(out, x.word+" "+prose.Printable(x.value))
		}
	}
	if since != nil {
		out = append(out, "with a turn "+names.Span(since, nil))
	}
	return strings.Join(out, ", ")
}

func (g *Filter) IsSet() bool {
	return g.Text+g.Since+g.Cwd+g.Branch+g.Project+g.Tag+g.Model+g.Source != ""
}

// Keeps reports whether the filters keep a session, by its meta.
func (g *Filter) Keeps(s *api.Session, since *api.Time) bool {
	w := turns.WorkContextOf(s.Meta)
	return (g.Cwd == "" || w.IsIn(g.Cwd)) && (g.Branch == "" || w.Branch == g.Branch) && (g.Model == "" || s.Model == g.Model) &&
		(g.Project == "" || turns.ProjectOf(s.Meta).Has(s.Project, g.Project)) && (g.Tag == "" || slices.Contains(s.Tags, g.Tag)) &&
		(g.Source == "" || w.Source == g.Source) && (since == nil || s.HeadTime != nil && !time.Time(*s.HeadTime).Before(time.Time(*since)))
}
