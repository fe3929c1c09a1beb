// Command verify checks proofs of ledgerctl prove: verify KEY FILE… reads FILE and FILE.event. It
// prints a line for each, and its exit status is 1 if one was refused.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func need(ok bool) {
	if !ok {
		panic("REFUSED")
	}
}
func decode(s string) []byte { // base64 in its one form
	b, err := base64.StdEncoding.DecodeString(s)
	need(err == nil && base64.StdEncoding.EncodeToString(b) == s)
	return b
}
func sum(parts ...[]byte) []byte { h := sha256.Sum256(bytes.Join(parts, nil)); return h[:] }

// root climbs from leaf i of n to the root of the tree (RFC 9162, section 2.1.3.2).
func root(h []byte, i, n uint64, path [][]byte) []byte {
	need(i < n)
	for last := n - 1; last > 0; i, last = i>>1, last>>1 {
		if i&1 == 1 || i < last {
			pair := [][]byte{{1}, h, path[0]}
			if i&1 == 1 {
				pair[1], pair[2] = pair[2], pair[1]
			}
			need(len(path[0]) == 32)
			h, path = sum(pair...), path[1:]
		}
	}
	need(len(path) == 0)
	return h
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

func check(key, name string) (path [][]byte, signed bool) {
	defer func() {
		verdict := "accepted"
		if recover() != nil { // what is cut short panics too
			verdict, status = "REFUSED", 1
		}
		fmt.Println(name, verdict)
	}()
	proof, _ := os.ReadFile(name)
	file, _ := os.ReadFile(name + ".event")
	var e struct {
		Header, Body []byte
		Leaves       []struct {
			Leaf, Count uint64
			Salt, Bytes []byte
			Path        [][]byte
		}
	}
	k, part, index, size := strings.SplitN(key, "+", 3), strings.SplitN(string(proof), "\n\n", 3), uint64(0), uint64(0)
	public := decode(k[2])
	need(json.Unmarshal(file, &e) == nil && len(e.Body) == 32 && public[0] == 1 && fmt.Sprintf("%x", sum([]byte(k[0]+"\n"), public)[:4]) == k[1])
	for _, line := range strings.Split(strings.TrimSuffix(part[2], "\n"), "\n") {
		f := strings.SplitN(strings.TrimPrefix(line, "— "), " ", 2)
		sig := decode(f[1])
		need("— "+f[0]+" "+f[1] == line && f[0] != "")
		signed = signed || f[0] == k[0] && fmt.Sprintf("%x", sig[:4]) == k[1] && ed25519.Verify(public[1:], []byte(part[1]+"\n"), sig[4:])
	}
	lines, text := strings.Split(part[0], "\n"), strings.Split(part[1], "\n")
	for _, line := range lines[2:] {
		path = append(path, decode(line))
	}
	fmt.Sscanf(lines[1]+" "+text[1], "index %d %d", &index, &size)
	top := root(sum([]byte{0}, sum([]byte("nexus.event.v1\x00"), e.Header, e.Body)), index, size, path)
	want := fmt.Sprintf("c2sp.org/tlog-proof@v1\nindex %d\n%s\n%d\n%s", index, k[0], size, base64.StdEncoding.EncodeToString(top))
	need(signed && strings.HasSuffix(part[2], "\n") && lines[0]+"\n"+lines[1]+"\n"+part[1] == want)
	h := e.Header // it ends with the commitment, or with that and the sender
	if at := len(h) - 60; strings.Trim(string(h[at:]), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "\x18\x2c\x78\x38" {
		h = h[:at]
	}
	seen := map[uint64]bool{}
	for _, l := range e.Leaves {
		need(l.Count == e.Leaves[0].Count && !seen[l.Leaf]) // one tree, and each place of it once
		seen[l.Leaf] = true
		is := len(l.Salt) == 32 && string(h[len(h)-36:len(h)-32]) == "\x18\x2b\x58\x20"
		need(is && bytes.Equal(root(sum([]byte{0}, l.Salt, l.Bytes), l.Leaf, l.Count, l.Path), h[len(h)-32:]))
	}
	for _, l := range e.Leaves { // leaf 0 says how many parts there are, and where each is
		if l.Leaf > 0 || l.Count == 1 {
			continue
		}
		places, rest := parts(l.Bytes, 0, false)
		need(len(rest) == 0 && uint64(len(places))+1 == l.Count)
		for _, p := range e.Leaves {
			need(p.Leaf == 0 || bytes.Equal(places[p.Leaf-1], sum([]byte{0}, p.Salt, p.Bytes)))
		}
	}
	return path, signed
}

var status int

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "verify KEY FILE…")
		os.Exit(2)
	}
	for _, name := range os.Args[2:] {
		check(os.Args[1], name)
	}
	os.Exit(status)
}
