package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/summary"
)

// The policies of the published designs ask as their templates do; a policy's numbers go
// before those of its template.
func TestPolicyStyle(t *testing.T) {
	for _, name := range Names() {
		p := builtin(name)
		tmpl, ok := summary.FindTemplate(p.Template)
		if !ok {
			t.Errorf("%s names the template %q", name, p.Template)
		}
		got := p.Style()
		if got == nil {
			got = new(summary.Style)
		}
		if d := cmp.Diff(tmpl.Style, *got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	p := Policy{Template: "gsv", ChunkRatio: 0.1, RetrySeconds: []float64{0.5}}
	want := &summary.Style{ChunkRatio: 0.1, Whole: true, Retries: []time.Duration{500 * time.Millisecond}}
	if d := cmp.Diff(want, p.Style()); d != "" {
		t.Error(d)
	}
}
