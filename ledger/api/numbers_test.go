package api

import (
	"errors"
	"testing"

	"nexus/turns"
)

// The size that a caller knows may be a number, or a string as replies have it above 2^53.
func TestTheSizeOfATreeIsReadInBothForms(t *testing.T) {
	for text, want := range map[string]Uint{`{"from":7}`: 7, `{"from":"7"}`: 7, `{"from":18446744073709551615}`: 1<<64 - 1, `{}`: 0} {
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
	for n, want := range map[Uint]string{0: `{"from":0}`, 7: `{"from":7}`, 1 << 53: `{"from":9007199254740992}`, 1<<53 + 1: `{"from":"9007199254740993"}`, 1<<64 - 1: `{"from":"18446744073709551615"}`} {
		if b, err := turns.EncodeJSON(GetConsistency{From: n}); err != nil || string(b) != want {
			t.Errorf("%s, %v; want %s", b, err, want)
		}
	}
}

// A position is what a reply gave, or the number of the place.
func TestAPositionIsReadInBothForms(t *testing.T) {
	for text, want := range map[string]Position{`{"min_position":"p7"}`: "p7", `{"min_position":"123"}`: "123", `{"min_position":123}`: "123", `{"min_position":null}`: "", `{}`: ""} {
		var r GetSession
		if err := turns.DecodeJSON([]byte(text), &r); err != nil || r.MinPosition != want {
			t.Errorf("%s: %q, %v", text, r.MinPosition, err)
		}
	}
	for _, text := range []string{`{"min_position":-1}`, `{"min_position":1.5}`, `{"min_position":[]}`, `{"min_position":true}`} {
		var r GetSession
		err := turns.DecodeJSON([]byte(text), &r)
		if field := (*turns.FieldError)(nil); !errors.As(err, &field) || field.Field != "/min_position" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
