package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// event is what FILE.event says of an event, and shows of its body.
type event struct {
	Version int `json:"nexus_event"`
	Header  data
	Body    string // base64 of its hash
	Leaves  []leaf
}

// leaf is what is shown of a body: leaf 0 what holds the parts, leaf n part n.
type leaf struct {
	Leaf, Count uint64
	Salt, Bytes data
	Path        []string // base64 of hashes
}

// data are bytes that stand in JSON as base64 in its one form.
type data []byte

func (d *data) UnmarshalText(s []byte) error { *d = decode(string(s)); return nil }

// parse reads a file of an event.
func parse(file []byte, _ error) (e event) {
	need(utf8.Valid(file) && json.Unmarshal(file, &e) == nil && e.Version == 1)
	names(json.NewDecoder(bytes.NewReader(file)))
	return e
}

// names refuses an object that has a name twice, or one that encoding/json takes for another: whoever reads the file
// with another program may be shown what was not checked.
func names(d *json.Decoder) {
	start, _ := d.Token()
	if start != json.Delim('{') && start != json.Delim('[') {
		return
	}
	for seen := map[json.Token]bool{}; d.More(); names(d) {
		if start == json.Delim('{') {
			name, _ := d.Token()
			need(strings.Trim(name.(string), "abcdefghijklmnopqrstuvwxyz_") == "" && !seen[name])
			seen[name] = true
		}
	}
	d.Token() // the end
}

// parts are the byte strings of 32 that are elements of arrays in a value of CBOR: in leaf 0 of a turn they stand for its parts.
func parts(b []byte, depth int, element bool) (out [][]byte, rest []byte) {
	need(depth < 16)
	kind, n := b[0]>>5, uint64(b[0]&31)
	if b = b[1:]; n >= 24 {
		var wide uint64
		for _, x := range b[:1<<(n-24)] {
			wide = wide<<8 | uint64(x)
		}
		n, b = wide, b[1<<(n-24):]
	}
	if kind == 2 && element && n == 32 {
		out = append(out, b[:n])
	}
	if kind == 2 || kind == 3 {
		b = b[n:]
	}
	for i := uint64(0); kind > 3 && kind < 6 && i < n*uint64(kind-3); i++ {
		var more [][]byte
		more, b = parts(b, depth+1, kind == 4)
		out = append(out, more...)
	}
	return out, b
}

// leaves checks what is shown against the commitment in the header, and says what that is.
func leaves(h []byte, all []leaf) (outcome string) {
	if at := len(h) - 60; strings.Trim(string(h[at:]), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "\x18\x2c\x78\x38" {
		h = h[:at] // the sender, which may stand behind the commitment
	}
	var places [][]byte // of the parts, which leaf 0 says
	seen := map[uint64]bool{}
	for _, l := range all {
		need(l.Count == all[0].Count && !seen[l.Leaf]) // one tree, and each place of it once
		seen[l.Leaf] = true
		is := len(l.Salt) == 32 && string(h[len(h)-36:len(h)-32]) == "\x18\x2b\x58\x20"
		need(is && bytes.Equal(root(sum([]byte{0}, l.Salt, l.Bytes), l.Leaf, l.Count, l.Path), h[len(h)-32:]))
		if l.Leaf == 0 && l.Count > 1 {
			var rest []byte
			places, rest = parts(l.Bytes, 0, false)
			need(len(rest) == 0 && uint64(len(places))+1 == l.Count)
		}
	}
	for _, l := range all {
		switch {
		case l.Leaf == 0:
			outcome += ", what holds its parts"
		case !seen[0]:
			outcome += fmt.Sprintf(", a part (as number %d: its place and who said it are not proven)", l.Leaf)
		default:
			need(bytes.Equal(places[l.Leaf-1], sum([]byte{0}, l.Salt, l.Bytes)))
			outcome += fmt.Sprintf(", part %d of %d", l.Leaf, l.Count-1)
		}
	}
	return outcome
}
