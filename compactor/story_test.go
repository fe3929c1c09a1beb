package compactor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
)

// TestStories runs the scripts in testdata/stories. Each tells one session:
//
//	policy name=nexus        with overrides, a JSON object, as input
//	turns                    a line each, see line
//	compact trigger=manual   plan, run, commit; prints the plan
//	coverage                 the state of every half
//	context                  what the next call sees
//
// To accept new output: go test ./compactor -run TestStories -rewrite
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, file string) {
		s := &story{world: newWorld()}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.run(t, d)
			if err != nil {
				out += fmt.Sprintf("error: %s\n", s.rename(err.Error()))
			}
			return out
		})
	})
}

type story struct {
	*world
	policy      policy.Policy
	compactions int
}

func (s *story) rename(text string) string {
	for ref, name := range s.Names {
		if !ref.IsZero() {
			text = strings.ReplaceAll(text, ref.String(), name)
		}
	}
	return text
}

func (s *story) run(t *testing.T, d *datadriven.TestData) (string, error) {
	arg := func(key, otherwise string) string {
		d.MaybeScanArgs(t, key, &otherwise)
		return otherwise
	}
	switch d.Cmd {
	case "policy":
		p, ok := policy.Builtin(arg("name", ""))
		if !ok {
			return "", fmt.Errorf("no such policy")
		}
		var err error
		s.policy, err = p.With(turns.Raw(d.Input))
		return "", err
	case "turns":
		for line := range strings.Lines(d.Input) {
			if err := s.line(strings.Fields(line)); err != nil {
				return "", err
			}
		}
		return "", nil
	case "compact":
		pl, err := s.compact(s.policy, arg("trigger", plan.TriggerThreshold), plan.Options{Focus: arg("focus", "")})
		if err != nil {
			return "", err
		}
		s.compactions++
		s.Names[s.Head.Ref] = fmt.Sprintf("C%d", s.compactions)
		return s.plan(pl), nil
	case "coverage":
		return s.coverage()
	case "context":
		return s.context()
	}
	return "", fmt.Errorf("no command %q", d.Cmd)
}

// line appends one turn: NAME, then "user TEXT", "results ID=TEXT …", or both
// with "++" between, then "-> TEXT" or "-> call ID …"; without an arrow it is pending.
func (s *story) line(f []string) error {
	name, rest := f[0], strings.Join(f[1:], " ")
	sent, reply, answered := strings.Cut(rest, " -> ")
	var ms []turns.Message
	for part := range strings.SplitSeq(sent, " ++ ") {
		kind, text, _ := strings.Cut(part, " ")
		switch kind {
		case "user":
			ms = append(ms, user(text)...)
		case "results":
			for r := range strings.SplitSeq(text, " ") {
				id, out, _ := strings.Cut(r, "=")
				ms = append(ms, tool(result(id, out)))
			}
		}
	}
	var response *turns.Message
	if answered {
		response = says(reply)
		if calls, ok := strings.CutPrefix(reply, "call "); ok {
			response = says("", strings.Fields(calls)...)
		}
	}
	err := s.Turn(ms, response)
	s.Names[s.Head.Ref] = name
	return err
}

func (s *story) plan(p *plan.Plan) string {
	split := ""
	if p.Span.Split {
		split = ", split"
	}
	b := s.Bodies[s.Head.Ref]
	return fmt.Sprintf("parent %s, previous %s, through %s, first kept %s%s, saw through %s, covers %d turns\n%d tokens to %d by %s\nsummary: %s\n",
		s.Names[s.Head.Parent], s.Names[p.Span.Previous], s.Names[p.Span.Through], s.Names[p.Span.FirstKept], split,
		s.Names[p.Span.SawThrough], p.Span.Covered, b.TokensBefore, b.TokensAfter, b.Tier, strings.ReplaceAll(b.Summary, "\n", " / "))
}

func (s *story) coverage() (string, error) {
	path, err := lineage.Path(&s.Forest, s.Head, 1)
	if err != nil {
		return "", err
	}
	chain, err := lineage.Chain(&s.Forest, s.Head)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, h := range lineage.Cover(path, chain, nil) {
		fmt.Fprintf(&b, "%s %s: %s", s.Names[h.Ref], h.Half, h.State)
		if !h.By.IsZero() {
			fmt.Fprintf(&b, " by %s", s.Names[h.By])
		}
		b.WriteByte('\n')
	}
	return b.String(), s.Check()
}

func (s *story) context() (string, error) {
	cx, err := view.Render(s.Path(), approx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, m := range cx.Messages {
		src := cx.Sources[cx.Origins[i]]
		fmt.Fprintf(&b, "%s %s %s | %s:", s.Names[src.Turn], src.Half, src.Status, m.Role)
		for _, p := range m.Parts {
			switch p.Type {
			case turns.Text:
				fmt.Fprintf(&b, " %s", strings.ReplaceAll(p.Content, "\n", " / "))
			case turns.ToolCall:
				fmt.Fprintf(&b, " call(%s)", p.ID)
			case turns.ToolCallResponse:
				fmt.Fprintf(&b, " result(%s)=%s", p.ID, p.Response)
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), checkPairs(cx.Messages)
}
