package turns

import "testing"

func TestExternalEventOfAMeta(t *testing.T) {
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for meta, want := range map[string]string{
		`{"event":{"channel":"mail/inbox","id":"` + id + `"}}`:        "mail/inbox",
		`{"a":1,"event":{"x":[],"channel":"mail","id":"` + id + `"}}`: "mail",
		`{"event":{"channel":"` + id + `","id":"` + id + `"}}`:        "",
		`{"event":{"channel":"a\u0000b","id":"` + id + `"}}`:          "",
		`{"event":{"channel":"mail","id":"no id"}}`:                   "",
		`{"event":{"channel":"mail"}}`:                                "",
		`{"event":{"channel":7,"id":"` + id + `"}}`:                   "",
		`{"event":"mail"}`: "",
		`{"Event":{"channel":"mail","id":"` + id + `"}}`:                 "",
		`{"other":{"event":{"channel":"mail","id":"` + id + `"}}}`:       "",
		`[{"event":{"channel":"mail","id":"` + id + `"}}]`:               "",
		`{"event":{"channel":"","id":"` + id + `"},"channel":"mail"}`:    "",
		`{"event":{"channel":"mail","id":"00000000000000000000000000"}}`: "",
		``: "",
	} {
		channel, got, ok := ExternalEvent(Raw(meta))
		if channel != want || ok != (want != "") || ok && got.String() != id {
			t.Errorf("%s: %q %s %v, want %q", meta, channel, got, ok, want)
		}
	}
}
