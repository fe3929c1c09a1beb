package evidence_test

import (
	"fmt"
	"strings"
	"testing"

	"nexus/compactor/evidence"
)

// BenchmarkTrace traces 100 lines over 200 turns of 16 KiB.
func BenchmarkTrace(b *testing.B) {
	var texts, lines []string
	for i := range 200 {
		var t strings.Builder
		for j := range 200 {
			fmt.Fprintf(&t, "%d\tfunc handle%d(w http.ResponseWriter) error { return pkg/file%d.go }\n", j, i*j%97, i*j%89)
		}
		texts = append(texts, t.String()+" => done")
	}
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("- handle%d of pkg/file%d.go returns an error and is done … func handle%d(w http.ResponseWriter) [t%d]", i, i%89, i, i))
	}
	covered := talk(texts...)
	for b.Loop() {
		evidence.Trace(lines, 0, len(lines), covered)
	}
}
