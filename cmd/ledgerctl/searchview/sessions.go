package searchview

import (
	"time"

	"github.com/spf13/pflag"

	"nexus/ledger/api"
	"nexus/turns"
)

// Filter is what sessions --grep and the filters beside it ask for.
type Filter struct {
	Text, Since, Cwd, Branch, Model, Source string
	Limit                                   int
}

func (g *Filter) Flags(f *pflag.FlagSet) {
	f.StringVar(&g.Text, "grep", "", "those with these words, best first")
	f.StringVar(&g.Since, "since", "", "with a turn from this day, time or age (3d) on")
	f.StringVar(&g.Cwd, "cwd", "", "those in this folder or below")
	f.StringVar(&g.Branch, "branch", "", "those on this branch of git")
	f.StringVar(&g.Model, "model", "", "those of this model")
	f.StringVar(&g.Source, "source", "", "those of this program, such as claude-code or codex")
	f.IntVarP(&g.Limit, "limit", "n", 20, "with --grep, at most so many; 0: all")
}

func (g *Filter) IsSet() bool { return g.Text+g.Since+g.Cwd+g.Branch+g.Model+g.Source != "" }

// Keeps reports whether the filters keep a session, by its meta.
func (g *Filter) Keeps(s *api.Session, since *api.Time) bool {
	w := turns.WorkContextOf(s.Meta)
	return (g.Cwd == "" || w.IsIn(g.Cwd)) && (g.Branch == "" || w.Branch == g.Branch) && (g.Model == "" || s.Model == g.Model) &&
		(g.Source == "" || w.Source == g.Source) && (since == nil || s.HeadTime != nil && !time.Time(*s.HeadTime).Before(time.Time(*since)))
}
