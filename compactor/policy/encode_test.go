package policy

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
)

func TestDecodeOfBytesIsThePolicy(t *testing.T) {
	for _, p := range builtins() {
		got, err := Decode(p.Bytes())
		if diff := cmp.Diff(p, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", p.Name, err, diff)
		}
	}
}

func TestDecodeRefusesWhatIsNotAPolicy(t *testing.T) {
	good := string(builtin("nexus").Bytes())
	for _, b := range []string{
		``, `null`, `[]`, `{}`, `{"name":"mine","version":1}`,
		" " + good, good + "\n", good[:len(good)-1] + `,"keep":1}`, good[:len(good)-1] + `,"keep_turns":0}`,
		good[:len(good)-1] + `,"max_strikes":1}`,
	} {
		if p, err := Decode(turns.Raw(b)); !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%.80s: %+v, %v", b, p, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range builtins() {
		f.Add([]byte(p.Bytes()))
	}
	f.Add([]byte(`{"name":"mine","version":1,"keep_tokens":1e3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b)
		if err == nil && !bytes.Equal(p.Bytes(), b) {
			t.Fatalf("%s decodes to a policy of the bytes %s", b, p.Bytes())
		}
	})
}
