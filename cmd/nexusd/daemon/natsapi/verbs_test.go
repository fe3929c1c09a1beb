package natsapi

import (
	"slices"
	"testing"
)

// stored are the verbs whose request is stored with its digest. The digest tells a
// retry with the same id from another request.
var stored = []string{
	"session.create", "session.set", "session.close", "session.reset", "session.move", "turn.append", "context.overflow",
	"compaction.run", "compaction.submit", "compaction.record", "flush.begin", "flush.done", "fork.create", "policy.put", "event.append",
	"memory.save", "memory.withdraw", "memory.promote",
}

// The canonical form costs twice what reading the request does.
func TestOnlyStoredRequestsAreMadeCanonical(t *testing.T) {
	for _, v := range verbs {
		c := &call{data: []byte(`{}`)}
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
