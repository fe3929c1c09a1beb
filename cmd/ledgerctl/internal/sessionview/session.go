package sessionview

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/secrets"
)

// MaxRecent is how many sessions a short list is of: those that changed last. The titles and times of
// 200,000 take minutes.
const MaxRecent = 2000

// Table is a line for each session: as much of it as a terminal has room
// for, and all of it in a file.
func Table(term *terminal.Terminal, list []api.Session) string {
	agents, states := term.Width == 0, term.Width == 0
	for i := range list {
		agents = agents || list[i].Agent != list[0].Agent
		states = states || list[i].State != "open" || list[i].Error != ""
	}
	const keep, never = 2, 100
	drop := func(shown bool) int { return map[bool]int{true: keep, false: never}[shown] }
	cols := []terminal.Column{{Head: "session"}, {Head: "agent", Drop: drop(agents)}, {Head: "state", Drop: drop(states)}, {Head: "said", Drop: 1}, {Head: "turns", Right: true, Drop: 4},
		{Head: "compactions", Right: true, Drop: 7}, {Head: "tokens", Right: true, Drop: 6}, {Head: "full", Right: true, Drop: 3}, {Drop: 8}, {Head: "source", Drop: 5}, {Head: "title", Least: 30}}
	if term.Width >= 120 {
		cols[len(cols)-1].Least = 50
	}
	list, depth := WithParts(list)
	var rows [][]string
	for i := range list {
		s := &list[i]
		id := terminal.Whole(s.ID)
		if term.Width > 0 && term.Width < 160 {
			id = terminal.ID.Render(prose.Short(s.ID))
		}
		said := ""
		if s.HeadTime != nil {
			said = day(time.Time(*s.HeadTime), s.HeadTimeBound)
		}
		rows = append(rows, []string{id, s.Agent, state(s), said, prose.Grouped(s.Turns), prose.Grouped(s.Compactions), prose.Grouped(s.Tokens),
			fmt.Sprintf("%.0f %%", 100*s.Pressure), terminal.Gauge(s.Pressure, 10), prose.Source(s.Meta), Part(depth[i]) + hidden(s) + Title(term, s)})
	}
	return term.Table(cols, rows)
}

// WithParts returns sessions with those that serve one behind it: sub-agents are parts of the
// session that started them. depth is how far each is from a session of its own.
func WithParts(list []api.Session) (out []api.Session, depth []int) {
	at := make(map[turns.ID]bool, len(list))
	for i := range list {
		at[list[i].ID] = true
	}
	parts := make(map[turns.ID][]int)
	for i := range list {
		if by := list[i].SpawnedBy; by != nil && at[by.Session] {
			parts[by.Session] = append(parts[by.Session], i)
		}
	}
	done := make(map[turns.ID]bool, len(list))
	var add func(i, d int)
	add = func(i, d int) {
		id := list[i].ID
		if done[id] {
			return
		}
		done[id] = true
		out, depth = append(out, list[i]), append(depth, d)
		for _, p := range parts[id] {
			add(p, d+1)
		}
	}
	for i := range list {
		if by := list[i].SpawnedBy; by == nil || !at[by.Session] {
			add(i, 0)
		}
	}
	for i := range list { // of a ring, which clients can make
		add(i, 0)
	}
	return out, depth
}

// Part is the mark before the title of a session that is a part of the one above it.
func Part(depth int) string {
	if depth == 0 {
		return ""
	}
	return strings.Repeat("  ", min(depth, 8)-1) + "↳ "
}

// hidden marks a session that lists leave out unless they are asked for all.
func hidden(s *api.Session) string {
	if s.Hidden {
		return "(hidden) "
	}
	return ""
}

// Title is what a person knows a session by.
func Title(term *terminal.Terminal, s *api.Session) string {
	most := 60
	if term.Width > 0 {
		most = term.Width // the table cuts what is too long
	}
	name, words := prose.Printable(s.Label), prose.Clip(s.Title, most)
	if f := s.ForkedFrom; f != nil && s.Turns == 0 && s.Compactions == 0 { // it has the title of its parent, and would look like its twin
		words = prose.Clip("fork of "+prose.Short(f.Session)+", nothing since: "+s.Title, most)
	}
	switch {
	case name != "" && words != "":
		return terminal.Bold.Render(name) + "  " + words
	case name != "":
		return terminal.Bold.Render(name)
	}
	return words
}

// day formats the time of a turn: how long ago, or the day.
func day(t time.Time, b turns.TimeBound) string {
	if d := time.Since(t); d < 0 || d >= 24*time.Hour || b != "" {
		return prose.At(t, b, time.DateOnly)
	}
	return humanize.Time(t)
}

// state is a session's, and why it can't be read.
func state(s *api.Session) string {
	if s.Error != "" {
		if !s.MissingKey.IsZero() {
			return s.State + " (no key)"
		}
		return s.State + " (" + string(s.Error) + ")"
	}
	return s.State
}

func Print(term *terminal.Terminal, s *api.Session) error {
	if term.JSON {
		return term.Print(s)
	}
	row := term.Rows(12)
	row("session", "%s", terminal.Whole(s.ID))
	row("label", "%s", prose.Printable(s.Label))
	row("title", "%s", prose.Clip(s.Title, 200))
	if len(s.Tags) > 0 {
		row("tags", "%s", prose.Clip(strings.Join(s.Tags, ", "), 1000))
	}
	if s.Project != "" {
		row("project", "%s", prose.Clip(s.Project, 300))
	}
	if s.Hidden {
		row("hidden", "lists, search and cost leave it out; ledgerctl session unhide %s", s.ID)
	}
	row("agent", "%s, %s", s.Agent, s.Kind)
	row("state", "%s", s.State)
	if s.Error != "" {
		row("content", "%s", prose.Unreadable("session", s.Error, s.MissingKey))
	}
	if s.Ended != nil {
		row("ended", "%s", Ended(s.Ended))
	}
	if s.Reset != nil {
		row("reset", "%s", prose.Printable(string(s.Reset)))
	}
	if s.ResetDue != nil {
		row("reset due", "%s", time.Time(*s.ResetDue).Local().Format(prose.Stamp))
	}
	if !s.Successor.IsZero() {
		row("successor", "%s", s.Successor)
	}
	if !s.SupersededBy.IsZero() {
		row("superseded", "by %s, which reads its transcript as import does now", s.SupersededBy)
	}
	if f := s.ForkedFrom; f != nil {
		row("forked from", "%s at turn %s (%s)", f.Session, f.Turn, f.Mode)
	}
	if sp := s.SpawnedBy; sp != nil {
		at := ""
		if !sp.Turn.IsZero() {
			at = " turn " + sp.Turn.String()
		}
		row("spawned by", "%s%s", sp.Session, at)
	}
	if s.Head != nil {
		row("head", "%s at depth %s", s.Head, prose.Grouped(s.Depth))
	}
	row("turns", "%s, %s", prose.Grouped(s.Turns), prose.Plural(s.Compactions, "compaction"))
	bar := terminal.Gauge(s.Pressure, 20) + " "
	if term.Width > 0 && term.Width < 100 {
		bar = ""
	}
	if s.Error == "" {
		row("window", "%s%s of %s tokens (%s of system and tools)%s%s", bar, prose.Grouped(s.Tokens+s.Overhead), prose.Grouped(s.Budget), prose.Grouped(s.Overhead), billed(s.Reported), contextview.Guessed(s.WindowGuess))
	}
	row("model", "%s", prose.Printable(s.Model))
	row("policy", "%s%s %s", prose.Printable(s.Policy.Name), versioned(s.Policy.Version), prose.Printable(string(s.Policy.Set)))
	row("used", "%s tokens in, %s out", prose.Grouped(s.Usage.InputTokens), prose.Grouped(s.Usage.OutputTokens))
	if s.HeadTime != nil {
		row("said", "%s", prose.At(time.Time(*s.HeadTime), s.HeadTimeBound, prose.Stamp))
	}
	row("opened", "%s", time.Time(s.Created).Local().Format(prose.Stamp))
	row("changed", "%s", time.Time(s.Updated).Local().Format(prose.Stamp))
	row("hash", "%s", s.Hash)
	var meta map[string]turns.Raw
	_ = json.Unmarshal(s.Meta, &meta)
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		if name == "project" || name == "import" && term.Width > 0 && term.Width < 60 {
			continue
		}
		if text, ok := meta[name].Text(); !ok {
			row(prose.Clip(name, 40), "%s", prose.Clip(secrets.Mask(string(meta[name])), 1000))
		} else if text = secrets.Mask(text); name != "title" || text != s.Title {
			row(prose.Clip(name, 40), "%s", prose.Clip(text, 1000))
		}
	}
	return nil
}

// versioned says after the name of a policy which version it is, if that is known.
func versioned(n uint64) string {
	if n == 0 {
		return ""
	}
	return " version " + prose.Grouped(n)
}

// PrintPolicy says on stderr where the name of a session's policy misleads: the
// session keeps its version, and another ledger does not know the name.
func PrintPolicy(ctx context.Context, term *terminal.Terminal, c *client.Client, s *api.Session) error {
	p := s.Policy
	if _, builtin := policy.Builtin(p.Name); builtin || p.Version == 0 {
		return nil
	}
	named, err := c.Policy(ctx, api.GetPolicy{Name: p.Name, Set: p.Set, Version: p.Version})
	var x *api.Error
	switch {
	case err == nil && named.Digest == p.Digest:
	case err == nil || api.HasCode(err, api.NotFound) || errors.As(err, &x) && x.Code == api.Malformed:
		term.Say("this ledger does not know its policy by the name %s: an export takes along the content of a policy, not its name. ledgerctl policy show %s shows it", prose.Printable(p.Name), p.Digest)
		return nil
	default:
		return err
	}
	newest, err := c.Policy(ctx, api.GetPolicy{Name: p.Name})
	if err == nil && newest.Version > p.Version {
		term.Say("the newest version of %s is %d; ledgerctl session set %s --policy %s takes it", p.Name, newest.Version, prose.Short(s.ID), p.Name)
	}
	return err
}

// billed says after a size that the provider counted it.
func billed(reported uint64) string {
	if reported > 0 {
		return ", billed"
	}
	return ""
}

// Ended says how a session ended: cause, time, and when it was due.
func Ended(x *api.Ended) string {
	text := time.Time(x.Time).Local().Format(prose.Stamp)
	if x.Due != nil {
		text += ", due " + time.Time(*x.Due).Local().Format(prose.Stamp)
	}
	if x.Cause != "" {
		text += ": " + prose.Printable(x.Cause)
	}
	return text
}
