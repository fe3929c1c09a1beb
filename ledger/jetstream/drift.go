package jetstream

import (
	"fmt"
	"reflect"

	js "github.com/nats-io/nats.go/jetstream"
)

// drift lists every field in which got, a stream as the server has it, differs
// from want. It corrects nothing: an operator changed the stream on purpose or by
// mistake, and records may be gone in both cases. drift ignores what an operator
// may choose: description, placement, and further metadata.
func drift(want, got js.StreamConfig) (diff []string) {
	for _, k := range []string{metaFormat, metaLedger} {
		if want.Metadata[k] != got.Metadata[k] {
			diff = append(diff, fmt.Sprintf("Metadata[%s] is %q, must be %q", k, got.Metadata[k], want.Metadata[k]))
		}
	}
	for _, c := range []*js.StreamConfig{&want, &got} {
		c.Description, c.Placement, c.Metadata = "", nil, nil
		if c.FirstSeq == 1 { // a server may report 1 for 0
			c.FirstSeq = 0
		}
	}
	// By reflection, so that a field the next client adds is compared too.
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	for n := range w.NumField() {
		if a, b := w.Field(n).Interface(), g.Field(n).Interface(); !reflect.DeepEqual(a, b) {
			diff = append(diff, fmt.Sprintf("%s is %+v, must be %+v", w.Type().Field(n).Name, b, a))
		}
	}
	return diff
}
