package lineage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"nexus/turns"
)

// TestStories runs the scripts in testdata. Each tells one lineage: "grow"
// adds turns, the other commands ask about it. To accept new output:
// go test ./lineage -run TestStories -rewrite
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, file string) {
		s := newStory(newWorld())
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				return fmt.Sprintf("error: %s\n", s.rename(err.Error()))
			}
			return out
		})
	})
}

// script runs the lines of a story's grow on w.
func script(t *testing.T, w *world, lines string) {
	t.Helper()
	if _, err := newStory(w).grow(lines); err != nil {
		t.Fatal(err)
	}
}

// story is a world whose turns and sessions have names.
type story struct {
	w        *world
	refs     map[string]turns.Ref
	names    map[turns.Ref]string
	sessions map[string]turns.ID
	order    []string             // sessions, as they came
	last     map[string]turns.Ref // last turn of a session
	full     map[string]bool
}

func newStory(w *world) *story {
	return &story{w, map[string]turns.Ref{}, map[turns.Ref]string{{}: "none"}, map[string]turns.ID{}, nil, map[string]turns.Ref{}, map[string]bool{}}
}

func (s *story) run(t *testing.T, d *datadriven.TestData) (string, error) {
	arg := func(key string) (n Node, err error) {
		var name string
		d.MaybeScanArgs(t, key, &name)
		ref, ok := s.refs[name]
		if !ok {
			return Node{}, fmt.Errorf("no turn %q", name)
		}
		return s.w.node(ref), nil
	}
	number := func(key string) uint64 {
		var n uint64
		d.MaybeScanArgs(t, key, &n)
		return n
	}
	switch d.Cmd {
	case "grow":
		return s.grow(d.Input)
	case "merge-base", "is-ancestor":
		a, err := arg("a")
		if err != nil {
			return "", err
		}
		b, err := arg("b")
		if err != nil {
			return "", err
		}
		if d.Cmd == "is-ancestor" {
			is, err := IsAncestor(s.w, a, b)
			return fmt.Sprintln(is), err
		}
		base, _, err := MergeBase(s.w, a, b)
		return s.names[base.Ref] + "\n", err
	}
	n, err := arg("of")
	if err != nil {
		return "", err
	}
	switch d.Cmd {
	case "at":
		at, err := At(s.w, n, number("depth"))
		return s.names[at.Ref] + "\n", err
	case "path":
		ns, err := Path(s.w, n, number("lo"))
		return s.list(ns), err
	case "compactions":
		ns, err := Chain(s.w, n)
		return s.list(ns), err
	case "segments":
		return s.segments(n, number("lo"))
	case "cover":
		return s.cover(n)
	case "tokens":
		sum, err := TokensFrom(s.w, n, Cut(number("from")))
		return fmt.Sprintln(sum), err
	}
	return "", fmt.Errorf("no command %q", d.Cmd)
}

func (s *story) list(ns []Node) string {
	var names []string
	for _, n := range ns {
		names = append(names, s.names[n.Ref])
	}
	return cmp.Or(strings.Join(names, " "), "none") + "\n"
}

func (s *story) segments(n Node, lo uint64) (string, error) {
	ranges, err := Segments(s.w, n, lo)
	var b strings.Builder
	for _, r := range ranges {
		fmt.Fprintf(&b, "%s from %s: %d to %d\n", s.rename(r.Session.String()), s.names[turns.Ref{Session: r.Session, Turn: r.Segment}], r.Lo, r.Hi)
	}
	return b.String(), err
}

func (s *story) cover(n Node) (string, error) {
	path, err := Path(s.w, n, 0)
	if err != nil {
		return "", err
	}
	chain, err := Chain(s.w, n)
	if err != nil {
		return "", err
	}
	var elisions []turns.Elision
	if len(chain) > 0 {
		elisions = s.w.events[chain[0].Ref].Span.Elisions
	}
	if err := CheckCoverage(path, chain, elisions); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, h := range Cover(path, chain, ElidedBy(elisions)) {
		fmt.Fprintf(&b, "%s %s: %s", s.names[h.Ref], h.Half, h.State)
		if !h.By.IsZero() {
			fmt.Fprintf(&b, " by %s", s.names[h.By])
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// grow adds a turn for each line:
//
//	SESSION NAME [parent=NAME|none] [halves=messages|response] [messages=N] [response=N]
//	SESSION NAME compact [through=NAME] [keep=NAME] [split] [saw=NAME] [elide=NAME/HALF,…] [dropped]
//
// The parent is the session's last turn unless a line states another. "full" on a
// session's first line makes it a fork of mode full.
func (s *story) grow(lines string) (string, error) {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		e, forget, err := s.event(f[0], f[1], f[2:])
		if err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
		if _, ok := s.sessions[f[0]]; !ok {
			s.sessions[f[0]] = idOf(f[0])
			s.order = append(s.order, f[0])
		}
		s.names[e.Ref()] = f[1]
		n, err := s.w.add(e, forget)
		if err != nil {
			return "", err
		}
		s.refs[f[1]], s.last[f[0]] = n.Ref, n.Ref
		fmt.Fprintf(&b, "%s: depth %d below %s, jump %s, segment %s, in force %s, sum %d", f[1], n.Depth, s.names[n.Parent],
			s.names[n.Jump], s.names[turns.Ref{Session: n.Ref.Session, Turn: n.Segment}], s.names[n.Compaction], n.Sum)
		if n.Kind == turns.KindCompaction {
			fmt.Fprintf(&b, ", cut %d after %s", n.Cut, s.names[n.Previous])
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func (s *story) event(session, name string, words []string) (*turns.Event, bool, error) {
	args := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	if _, ok := args["full"]; ok {
		s.full[session] = true
	}
	parent := s.last[session]
	if p, ok := args["parent"]; ok {
		parent = s.refs[p]
	}
	forget := s.full[session] && !parent.IsZero() && parent.Session != idOf(session)
	e := s.w.event(idOf(session), idOf(name), parent)
	var err error
	if _, ok := args["compact"]; ok {
		e.Kind, e.Halves = turns.KindCompaction, 0
		e.Span, err = s.span(parent, forget, args)
		return e, forget, err
	}
	switch args["halves"] {
	case "messages":
		e.Halves = turns.Halves(turns.MessagesHalf)
	case "response":
		e.Halves = turns.Halves(turns.ResponseHalf)
	}
	for k, to := range map[string]*uint64{"messages": &e.Tokens.Messages, "response": &e.Tokens.Response} {
		if v, ok := args[k]; ok && err == nil {
			*to, err = strconv.ParseUint(v, 10, 64)
		}
	}
	return e, forget, err
}

func (s *story) span(parent turns.Ref, forget bool, args map[string]string) (*turns.Span, error) {
	span := &turns.Span{Through: s.refs[args["through"]], FirstKept: s.refs[args["keep"]], SawThrough: s.refs[args["through"]], Provenance: turns.ByNexus}
	if saw, ok := args["saw"]; ok {
		span.SawThrough = s.refs[saw]
	}
	if !forget {
		span.Previous = s.w.node(parent).Compaction
	}
	_, span.Split = args["split"]
	if _, span.Dropped = args["dropped"]; span.Dropped {
		span.Provenance = turns.Imported
	}
	for _, at := range strings.Split(args["elide"], ",") {
		if name, half, ok := strings.Cut(at, "/"); ok {
			h := turns.Half(1 + slices.Index([]string{"messages", "response"}, half))
			span.Elisions = append(span.Elisions, turns.Elision{Turn: s.refs[name], Half: h})
		}
	}
	return span, nil
}

// rename puts the story's names for the IDs in text.
func (s *story) rename(text string) string {
	for ref, name := range s.names {
		if !ref.IsZero() {
			text = strings.ReplaceAll(text, ref.String(), name)
			text = strings.ReplaceAll(text, ref.Turn.String(), name)
		}
	}
	for name, id := range s.sessions {
		text = strings.ReplaceAll(text, id.String(), name)
	}
	return text
}
