package natsapi

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/ledger/api"
	"nexus/turns"
)

// stored are the verbs whose request is stored with its digest. The digest tells a
// retry with the same id from another request.
var stored = []string{
	"session.create", "session.set", "session.close", "session.reset", "session.move", "session.hide", "session.unhide", "session.describe", "turn.note", "turn.redact", "turn.append", "context.overflow",
	"compaction.run", "compaction.submit", "compaction.record", "flush.begin", "flush.done", "fork.create", "policy.put", "event.append",
	"memory.save", "memory.withdraw", "memory.promote",
}

// The canonical form costs twice what reading the request does.
func TestOnlyStoredRequestsAreMadeCanonical(t *testing.T) {
	for _, v := range verbs {
		c := &call{data: []byte(cmp.Or(map[string]string{"session.move": `{"to":null}`, "turn.note": `{"turn":"01K8000003041061050R3GG281","text":""}`, "flush.done": `{"cycle":1,"saved":0}`}[v.name], `{}`))}
		func() {
			defer func() { _ = recover() }() // the engine is not there
			_, _ = v.serve(t.Context(), c)   // an error of the engine comes after the form
		}()
		if want := slices.Contains(stored, v.name); (c.canonical != nil) != want {
			t.Errorf("%s: a canonical form: %v, want %v", v.name, c.canonical != nil, want)
		}
	}
}

func TestCanonicalFormLeavesOutIDAndWait(t *testing.T) {
	for _, data := range []string{`{"a":[1.50,{"c":1,"b":"é"}],"z":null}`, `{"z" : null, "wait_ms": 9, "id":"01JE", "a":[1.50,{"b":"\u00e9","c":1}]}`} {
		got, err := canonical([]byte(data))
		if want := `{"a":[1.50,{"b":"é","c":1}],"z":null}`; err != nil || string(got) != want {
			t.Errorf("canonical(%s) = %s, %v; want %s", data, got, err, want)
		}
	}
}

// The strict reading refuses an invalid request and names its member.
func TestRequestsAreReadStrictlyBeforeTheyAreMadeCanonical(t *testing.T) {
	for _, v := range verbs {
		c := &call{data: []byte(`{"no_such_member":1}`)}
		if _, err := v.serve(t.Context(), c); err == nil || c.canonical != nil {
			t.Errorf("%s: %v, canonical %s", v.name, err, c.canonical)
		}
	}
}

// canonicalTwin is canonical by way of a map.
func canonicalTwin(data []byte) ([]byte, error) {
	b, err := turns.CanonicalJSON(data)
	if err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := turns.DecodeJSON(b, &members); err != nil {
		return nil, err
	}
	delete(members, "id")
	delete(members, "wait_ms")
	return turns.EncodeJSON(members)
}

func FuzzCanonicalAgreesWithItsTwin(f *testing.F) {
	for _, s := range []string{`{}`, ` { "id" : 1 } `, `{"wait_ms":1,"id":"x"}`, `{"z":{"id":1,"b":[1.0,1e400,{}]},"id":2,"a":"\u0041\ud83d\ude00","wait_ms":3}`,
		`{"messages":[{"role":"user","parts":[{"type":"text","content":"<x>\n"}]}],"id":null,"meta":{"b":1,"a":2}}`, `null`, `[]`, `1`, `{"id":1,"id":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if turns.DecodeJSON(data, new(jsontext.Value)) != nil {
			return // the service has decoded the request
		}
		want, werr := canonicalTwin(data)
		got, err := canonical(data)
		if (err != nil) != (werr != nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%s: %s, %v; want %s, %v", data, got, err, want, werr)
		}
	})
}

// An unsigned number of a request may be a string, as replies have those above 2^53. What is no number is named.
func TestANumberOfARequestMayBeAString(t *testing.T) {
	const message = `"messages":[{"role":"user","parts":[{"type":"text","ref":{"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000001","size":SIZE}}]}]`
	for _, tc := range []struct{ verb, request, field string }{ // the second member is unknown, so that nothing is done
		{"context.get", `{"budget":"2000","query_tokens":5,"?":0}`, "/?"},
		{"context.get", `{"min_position":"123","?":0}`, "/?"},
		{"context.get", `{"min_position":123,"?":0}`, "/?"},
		{"session.create", `{"limits":{"context_window":"100000","safety_margin":1},"?":0}`, "/?"},
		{"turn.list", `{"from":"7","?":0}`, "/?"},
		{"policy.get", `{"name":"nexus","version":"1","?":0}`, "/?"},
		{"turn.append", `{` + strings.ReplaceAll(message, "SIZE", `"5"`) + `,"usage":{"input_tokens":"12","output_tokens":3},"?":0}`, "/?"},
		{"turn.append", `{` + strings.ReplaceAll(message, "SIZE", `"x"`) + `}`, "/messages/0/parts/0/ref/size"},
		{"turn.append", `{"messages":[],"usage":{"input_tokens":"12","output_tokens":"-1"}}`, "/usage/output_tokens"},
		{"context.get", `{"budget":""}`, "/budget"},
		{"context.get", `{"budget":"18446744073709551616"}`, "/budget"},
		{"context.get", `{"budget":" 1"}`, "/budget"},
	} {
		_, err := verbNamed(t, tc.verb).serve(t.Context(), &call{data: []byte(tc.request)})
		if field := (*turns.FieldError)(nil); !errors.As(err, &field) || field.Field != tc.field || !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s %s: %v, want malformed %s", tc.verb, tc.request, err, tc.field)
		}
	}
	var r api.AppendTurn
	if err := turns.DecodeRequest([]byte(`{"messages":[],"usage":{"input_tokens":"18446744073709551615","output_tokens":3}}`), &r); err != nil || r.Usage.InputTokens != 1<<64-1 || r.Usage.OutputTokens != 3 {
		t.Errorf("%+v, %v", r.Usage, err)
	}
}

// What is wrong in the subject, or in no member of the body, has a name too.
func TestAMalformedRequestNamesWhatIsWrong(t *testing.T) {
	for _, body := range []string{`{"a":`, `[]`, `"x"`, `1`, `{"messages":[]}}`, "\xff"} {
		_, err := verbNamed(t, "session.get").serve(t.Context(), &call{data: []byte(body)})
		if said := api.FromError(err); said.Code != api.Malformed || said.Details["field"] == nil {
			t.Errorf("%s: %+v, want malformed with a field", body, said)
		}
	}
	for subject, field := range map[string]string{
		"nexus.v1.default.main.session.get.x":                           "session",
		"nexus.v1.default.main.session.get.01ARZ3NDEKTSV4RRFFQ69G5FAVX": "session",
		"nexus.v1.default.-x.session.get.01ARZ3NDEKTSV4RRFFQ69G5FAV":    "agent",
		"nexus.v1.-x.main.session.get.01ARZ3NDEKTSV4RRFFQ69G5FAV":       "tenant",
		"nexus.v1._.main.session.get.01ARZ3NDEKTSV4RRFFQ69G5FAV":        "tenant",
	} {
		_, err := new(Service).parse(arrived{subject: subject}, verbNamed(t, "session.get"))
		if said := api.FromError(err); said.Code != api.Malformed || said.Details["field"] != field {
			t.Errorf("%s: %+v, want malformed %s", subject, said, field)
		}
	}
}

// A program may send an id with every change.
func TestEachChangeTakesAnID(t *testing.T) {
	for _, v := range verbs {
		if !v.changes {
			continue
		}
		c := &call{data: []byte(`{"id":"01K8000003041061050R3GG281","?":0}`)}
		_, err := v.serve(t.Context(), c)
		if field := (*turns.FieldError)(nil); !errors.As(err, &field) || field.Field != "/?" {
			t.Errorf("%s: %v; want nothing to be wrong but the second member", v.name, err)
		}
	}
}
