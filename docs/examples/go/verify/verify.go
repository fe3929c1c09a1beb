// Command verify checks proofs of ledgerctl prove: verify KEY FILE… reads FILE and FILE.event. It
// prints a line for each, and its exit status is 1 if one was refused.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// form is that of a proof: 1 index, 2 path, 3 the text of the note with 4 origin, 5 size and 6 root, 7 signatures.
var form = regexp.MustCompile(`^c2sp\.org/tlog-proof@v1\nindex (0|[1-9][0-9]{0,18})\n((?:[0-9A-Za-z+/]{43}=\n)*)\n` +
	`((.+)\n(0|[1-9][0-9]{0,18})\n(.+)\n)\n((?:— [^\x00- +\x{FFFD}]+ [0-9A-Za-z+/]{7,}={0,2}\n)+)$`)
var signature = regexp.MustCompile(`— ([^ ]+) (.+)\n`)
var status int // of the program

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
func hash(s string) []byte       { b := decode(s); need(len(b) == 32); return b }
func sum(parts ...[]byte) []byte { h := sha256.Sum256(bytes.Join(parts, nil)); return h[:] }

// root climbs from leaf i of n to the root of the tree (RFC 9162, section 2.1.3.2).
func root(h []byte, i, n uint64, path []string) []byte {
	need(i < n)
	for last := n - 1; last > 0; i, last = i>>1, last>>1 {
		if i&1 == 1 || i < last {
			pair := [2][]byte{h, hash(path[0])} // in this order if i is even
			h, path = sum([]byte{1}, pair[i&1], pair[1-i&1]), path[1:]
		}
	}
	need(len(path) == 0)
	return h
}

func check(key, name string) (outcome string) {
	defer func() {
		if recover() != nil { // what is cut short panics too
			outcome, status = " REFUSED", 1
		}
	}()
	proof, _ := os.ReadFile(name)
	f, k, signed, index, size := form.FindStringSubmatch(string(proof)), strings.SplitN(key, "+", 3), false, uint64(0), uint64(0)
	public := decode(k[2])
	need(public[0] == 1 && fmt.Sprintf("%x", sum([]byte(k[0]+"\n"), public)[:4]) == k[1] && f[4] == k[0])
	for _, s := range signature.FindAllStringSubmatch(f[7], -1) {
		if sig := decode(s[2]); s[1] == k[0] && fmt.Sprintf("%x", sig[:4]) == k[1] {
			need(!signed && ed25519.Verify(public[1:], []byte(f[3]), sig[4:])) // the key signs once
			signed = true
		}
	}
	e := parse(os.ReadFile(name + ".event"))
	entry := sum([]byte("nexus.event.v1\x00"), e.Header, hash(e.Body))
	fmt.Sscan(f[1]+" "+f[5], &index, &size)
	need(signed && bytes.Equal(root(sum([]byte{0}, entry), index, size, strings.Fields(f[2])), hash(f[6])))
	return " accepted" + leaves(e.Header, e.Leaves)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "verify KEY FILE…")
		os.Exit(2)
	}
	for _, name := range os.Args[2:] {
		fmt.Println(name + check(os.Args[1], name))
	}
	os.Exit(status)
}
