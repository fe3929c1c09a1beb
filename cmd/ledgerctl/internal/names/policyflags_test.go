package names

import (
	"testing"

	"nexus/cmd/ledgerctl/internal/fault"
)

func TestPolicyFlags(t *testing.T) {
	for name, c := range map[string]struct {
		flags PolicyFlags
		want  string // name and settings; "": none
		wrong bool
	}{
		"none":                   {},
		"a name":                 {flags: PolicyFlags{Name: "balanced"}, want: "balanced"},
		"a number":               {flags: PolicyFlags{Name: "balanced", Set: []string{"keep_tokens=8000"}}, want: `balanced{"keep_tokens":8000}`},
		"a text and a list":      {flags: PolicyFlags{Name: "gsv", Set: []string{"measure=reported", `tiers=["llm"]`}}, want: `gsv{"measure":"reported","tiers":["llm"]}`},
		"beside JSON":            {flags: PolicyFlags{Name: `mine{"keep_tokens":1,"a":true}`, Set: []string{"keep_tokens = 2"}}, want: `mine{"a":true,"keep_tokens":2}`},
		"a text with a sign":     {flags: PolicyFlags{Name: "mine", Set: []string{"notice=a=b"}}, want: `mine{"notice":"a=b"}`},
		"without a policy":       {flags: PolicyFlags{Set: []string{"a=1"}}, wrong: true},
		"without a value":        {flags: PolicyFlags{Name: "mine", Set: []string{"a"}}, wrong: true},
		"without a key":          {flags: PolicyFlags{Name: "mine", Set: []string{"=1"}}, wrong: true},
		"the same setting twice": {flags: PolicyFlags{Name: "mine", Set: []string{"a=1", "a=2"}}, wrong: true},
		"JSON that is none":      {flags: PolicyFlags{Name: `mine{"a"`, Set: []string{"a=1"}}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.flags.Policy()
			if c.wrong != fault.IsUsage(err) || !c.wrong && err != nil {
				t.Fatalf("%v", err)
			}
			got := ""
			if p != nil {
				got = p.Name + string(p.Set)
			}
			if !c.wrong && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
