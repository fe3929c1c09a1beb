package erasure

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/turns"
)

// List is the erasures of a ledger: which sessions, and events of others, must stay unreadable, whatever backup is restored. It holds no
// content. It is text:
//
//	nexus erasures v1
//	ledger UUID
//	key KEY                       public key of the signature, as of checkpoints; "-": not signed
//	SESSION TENANT HASH POSITION TIME GROUND
//	SESSION/EVENT …               the same of one event that was redacted; the position is that on its chain
//	…                             by session and event; the hash and position of the event that did it, "-" for no ground
//
//	nexus erasures                a signed note of three lines: this, the ledger, the SHA-256 of all lines before
//	UUID                          the empty one, in base64
//	DIGEST
//
//	— …
type List struct {
	Ledger string
	Key    string // "": not signed
	Rows   []Erased
}

const listHead = "nexus erasures v1\n"

// IsList reports whether a text begins as a list does.
func IsList(b []byte) bool { return bytes.HasPrefix(b, []byte(listHead)) }

// Merge adds rows. Of two of one session the one that says more stays.
func (l *List) Merge(rows []Erased) (changed bool) {
	for _, r := range rows {
		i, found := slices.BinarySearchFunc(l.Rows, r, compareErased)
		if !found {
			l.Rows, changed = slices.Insert(l.Rows, i, r), true
			continue
		}
		has := &l.Rows[i]
		if has.Hash.IsZero() && !r.Hash.IsZero() || r.Position > has.Position && !r.Event.IsZero() {
			r.Ground = cmp.Or(r.Ground, has.Ground)
			*has, changed = r, true
		}
		if has.Ground == "" && r.Ground != "" {
			has.Ground, changed = r.Ground, true
		}
	}
	return changed
}

func compareErased(a, b Erased) int {
	return cmp.Or(a.Session.Compare(b.Session), a.Event.Compare(b.Event))
}

// Encode returns the text. sign signs the text of a note; nil signs nothing.
func (l *List) Encode(sign func(text string) ([]byte, error)) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sledger %s\nkey %s\n", listHead, l.Ledger, cmp.Or(l.Key, "-"))
	for _, r := range l.Rows {
		name := r.Session.String()
		if !r.Event.IsZero() {
			name += "/" + r.Event.String()
		}
		fmt.Fprintf(&b, "%s %s %s %d %s %s\n", name, r.Tenant, r.Hash, r.Position, r.Time.UTC().Format(time.RFC3339Nano), cmp.Or(r.Ground, "-"))
	}
	if sign == nil {
		return b.Bytes(), nil
	}
	signed, err := sign(l.signed(b.Bytes()))
	if err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	b.Write(signed)
	return b.Bytes(), nil
}

// signed is the text of the note on the lines of a list.
func (l *List) signed(lines []byte) string {
	sum := sha256.Sum256(lines)
	return "nexus erasures\n" + l.Ledger + "\n" + base64.StdEncoding.EncodeToString(sum[:]) + "\n"
}

// ParseList reads a list, and checks its signature by the key that it names: whether that is the key of who may erase
// is for the caller. Errors: [ledger.ErrMalformed].
func ParseList(b []byte) (l List, err error) {
	bad := func(format string, args ...any) (List, error) {
		return List{}, fmt.Errorf("%w: a list of erasures: %s", ledger.ErrMalformed, fmt.Sprintf(format, args...))
	}
	if !IsList(b) {
		return bad("it does not begin with %q", strings.TrimSpace(listHead))
	}
	lines, signed, isSigned := bytes.Cut(b, []byte("\n\n"))
	if isSigned {
		lines = b[:len(lines)+1]
	}
	if !bytes.HasSuffix(lines, []byte("\n")) {
		return bad("it is cut off")
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(lines[len(listHead):]), "\n"), "\n") {
		f := strings.Split(line, " ")
		switch {
		case n == 0 && len(f) == 2 && f[0] == "ledger":
			l.Ledger = f[1]
		case n == 1 && len(f) == 2 && f[0] == "key" && f[1] != "":
			l.Key = unlessNone(f[1])
		case n > 1 && len(f) == 6:
			r := Erased{Tenant: f[1], Ground: unlessNone(f[5])}
			var errs [5]error
			session, event, one := strings.Cut(f[0], "/")
			if r.Session, errs[0] = turns.ParseID(session); one {
				if r.Event, errs[4] = turns.ParseID(event); r.Event.IsZero() {
					return bad("line %d", n+2)
				}
			}
			r.Hash, errs[1] = turns.ParseHash(f[2])
			r.Position, errs[2] = strconv.ParseUint(f[3], 10, 64)
			r.Time, errs[3] = time.Parse(time.RFC3339Nano, f[4])
			if errs != [5]error{} || r.Session.IsZero() || !isGround(r.Ground) {
				return bad("line %d", n+2)
			}
			l.Rows = append(l.Rows, r)
		default:
			return bad("line %d", n+2)
		}
	}
	if !slices.IsSortedFunc(l.Rows, compareErased) {
		return bad("it is not sorted")
	}
	if bytes.Count(lines, []byte("\n")) < 3 || isSigned != (l.Key != "") {
		return bad("it is cut off: a key without a signature, or the other way round")
	}
	if !isSigned {
		return l, nil
	}
	text, err := tlog.OpenText(signed, l.Key)
	if err != nil {
		return bad("%v", err)
	}
	if text != l.signed(lines) {
		return bad("the signature is of another list")
	}
	return l, nil
}

// unlessNone is a word of a list; "" for the one that says that there is none.
func unlessNone(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
