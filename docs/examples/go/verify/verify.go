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

func check(key, name string) (said string) {
	defer func() {
		if recover() != nil { // what is cut short panics too
			said = " REFUSED"
		}
	}()
	proof, _ := os.ReadFile(name)
	file, _ := os.ReadFile(name + ".event")
	var e struct {
		Header, Body []byte
		Leaves       []leaf
	}
	var path [][]byte
	signed := false
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
	return " accepted" + leaves(e.Header, e.Leaves)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "verify KEY FILE…")
		os.Exit(2)
	}
	status := 0
	for _, name := range os.Args[2:] {
		said := check(os.Args[1], name)
		if fmt.Println(name + said); said == " REFUSED" {
			status = 1
		}
	}
	os.Exit(status)
}
