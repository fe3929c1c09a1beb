package summary

import (
	"fmt"
	"slices"
	"strings"
)

// cutImages replaces the images in s by notes and counts them. It knows data URIs of
// images, of any size. In the JSON of tools it knows members like "data" with more
// base64 than a name or hash has; they count if the text mentions an image.
func cutImages(s string) (string, int) {
	n := 0
	s = cutURIs(s, &n)
	before := n
	s = cutMembers(s, &n)
	if n > before && !strings.Contains(s, "image") {
		n = before
	}
	return s, n
}

// cutURIs writes "[image TYPE]" in place of each base64 data URI of an image.
func cutURIs(s string, n *int) string {
	const scheme, encoding = "data:image/", ";base64,"
	var b strings.Builder
	for {
		i := strings.Index(s, scheme)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		head := i + len(scheme) + run(s[i+len(scheme):], isParameter) // the type and its parameters
		if at := head - len(encoding) + 1; at <= i || !strings.HasPrefix(s[at:], encoding) {
			b.WriteString(s[:i+len(scheme)])
			s = s[i+len(scheme):]
			continue
		}
		kind, _, _ := strings.Cut(s[i+len("data:"):head], ";")
		b.WriteString(s[:i] + "[image " + kind + "]")
		s = s[head+1:]
		s = s[run(s, isBase64):]
		*n++
	}
}

// base64Members are the names of members that hold blobs in tools' JSON.
var base64Members = [...]string{"data", "content", "image", "base64", "b64_json", "bytes"}

// cutMembers replaces each string of 256 or more base64 characters in such a member
// by its length.
func cutMembers(s string, n *int) string {
	if len(s) < 256 {
		return s
	}
	var b strings.Builder
	done := 0 // s[:done] is written
	for i := 0; ; {
		quote := strings.IndexByte(s[i:], '"')
		if quote < 0 {
			b.WriteString(s[done:])
			return b.String()
		}
		begin := i + quote + 1
		end := begin + run(s[begin:], isBase64)
		i = end
		if end-begin < 256 || end == len(s) || s[end] != '"' || !isBlobMember(s[:begin-1]) {
			continue
		}
		b.WriteString(s[done:begin])
		fmt.Fprintf(&b, "[%d bytes of base64]", end-begin)
		done, i = end, end+1
		*n++
	}
}

// isBlobMember reports whether before ends with the name of such a member and a
// colon.
func isBlobMember(before string) bool {
	before, ok := strings.CutSuffix(strings.TrimRight(before, " \t\r\n"), ":")
	before = strings.TrimRight(before, " \t\r\n")
	return ok && slices.ContainsFunc(base64Members[:], func(name string) bool { return strings.HasSuffix(before, `"`+name+`"`) })
}

// run returns how many bytes at the start of s are in a class.
func run(s string, of func(byte) bool) int {
	for i := range len(s) {
		if !of(s[i]) {
			return i
		}
	}
	return len(s)
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_' || c == '='
}

// isParameter reports whether c may occur between "data:" and the comma before the
// bytes.
func isParameter(c byte) bool { return isBase64(c) || c == '.' || c == ';' }
