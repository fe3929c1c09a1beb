package api

import (
	"errors"
	"testing"

	"nexus/turns"
)

// The size that a caller knows may be a number, or a string as replies have it.
func TestTheSizeOfATreeIsReadInBothForms(t *testing.T) {
	for text, want := range map[string]Size{`{"from":7}`: 7, `{"from":"7"}`: 7, `{"from":18446744073709551615}`: 1<<64 - 1, `{}`: 0} {
		var r GetConsistency
		if err := turns.DecodeJSON([]byte(text), &r); err != nil || r.From != want {
			t.Errorf("%s: %d, %v", text, r.From, err)
		}
	}
	for _, text := range []string{`{"from":-1}`, `{"from":1.5}`, `{"from":"x"}`, `{"from":[]}`, `{"from":""}`} {
		var r GetConsistency
		err := turns.DecodeJSON([]byte(text), &r)
		if field := (*turns.FieldError)(nil); !errors.As(err, &field) || field.Field != "/from" {
			t.Errorf("%s: %v", text, err)
		}
	}
	if b, err := turns.EncodeJSON(GetConsistency{From: 7}); err != nil || string(b) != `{"from":"7"}` {
		t.Errorf("%s, %v", b, err)
	}
}
