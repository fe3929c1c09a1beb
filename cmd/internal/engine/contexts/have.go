package contexts

import (
	"crypto/sha256"
	"slices"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// A caller that has a context needs what changed since. It names what it has by the
// fingerprint of its reply. A fingerprint is of the ledger's messages, and what is cut is a
// list of the provider's, so the daemon remembers a digest of each message of the last
// replies. It compares digests, and never guesses: what it does not remember, after a
// restart for instance, it sends as a whole.
//
// In one format, what the messages are follows from the fingerprint and the preamble's
// digest: OpenAI's messages begin with the system part, and the digest says whose
// signatures stay. So a caller that names both has one list, whichever session sent it. One
// that names the fingerprint alone may have been sent the same messages under other
// settings: a reply counts for it only if it was made under the settings in force, if a turn
// came since, and if no other reply with that fingerprint is remembered.

// maxAnswers bounds the replies that are remembered of a session, format and model.
const maxAnswers = 8

// answersKey names replies of which one fingerprint means one list of messages. model is
// that of the request.
type answersKey struct {
	session turns.ID
	format  string
	model   string
}

// messageSum is a digest of a rendered message: the first half of its SHA-256.
type messageSum [sha256.Size / 2]byte

// answer is what is remembered of a reply. Nobody changes it.
type answer struct {
	fingerprint string
	settings    uint64       // the chain index of the settings in force
	preamble    string       // its digest
	head        lineage.Node // the turn that the call followed
	sums        []messageSum
}

// answers are the last replies, the newest first. Nobody changes them.
type answers []answer

func (as answers) size() (n int) {
	const frame = 256
	for _, a := range as {
		n += frame + len(a.preamble) + len(a.sums)*len(messageSum{})
	}
	return n
}

// keepOf remembers the reply to a request for the next call, and returns how many messages of
// it the caller has: those that it begins with in common with the reply that have names; 0 if
// that is not known. epoch is of before a key was read.
func (cx *Contexts) keepOf(epoch uint64, s *ledger.Session, head lineage.Node, req *api.GetContext, whole *api.Context, sums []messageSum) (int, error) {
	if head.Ref != s.Head || req.Recipe != nil || req.Recorded {
		return 0, nil
	}
	since := uint64(0) // the index of the newest turn; that of the opening if it is inherited
	if head.Ref.Session == s.ID {
		t, err := cx.reader.Projections.Turn(head.Ref)
		if err != nil {
			return 0, err
		}
		since = t.Index
	}
	if s.Settings > since {
		return 0, nil
	}
	key := answersKey{s.ID, req.Format, req.Model}
	known, _ := cx.answers.Get(key)
	mine := answer{whole.Fingerprint, s.Settings, whole.PreambleDigest, head, sums}
	keep := 0
	if req.Have != nil {
		of := known
		if req.Have.Preamble != "" {
			inherited, err := cx.inherited(s, key)
			if err != nil {
				return 0, err
			}
			of = append(slices.Clip(known), inherited...)
		}
		keep = of.keep(req.Have, s.Settings, sums)
	}
	now := answers{mine}
	for _, a := range known {
		same := a.fingerprint == whole.Fingerprint && a.settings == s.Settings && a.preamble == mine.preamble && len(a.sums) == len(sums) && commonSums(a.sums, sums) == len(sums)
		if !same && len(now) < maxAnswers {
			now = append(now, a)
		}
	}
	cx.answers.PutIn(epoch, key, now, now.size())
	return keep, nil
}

// keep returns how many messages a context begins with in common with the one that a caller has, 0 if that is not known.
// settings are those in force.
func (as answers) keep(have *api.Have, settings uint64, sums []messageSum) int {
	keep, found, preamble := len(sums), false, ""
	for _, a := range as {
		switch {
		case a.fingerprint != have.Fingerprint:
			continue
		case have.Preamble != "" && a.preamble != have.Preamble:
			continue
		case have.Preamble == "" && (a.settings != settings || found && a.preamble != preamble):
			return 0 // it may have another list
		}
		keep, found, preamble = min(keep, commonSums(a.sums, sums)), true, a.preamble
	}
	if !found {
		return 0
	}
	return keep
}

// inherited returns the replies to the session that s was forked from, as far as they were made at turns that s has too.
func (cx *Contexts) inherited(s *ledger.Session, key answersKey) (out answers, err error) {
	if s.ForkOf == nil {
		return nil, nil
	}
	key.session = s.ForkOf.At.Session
	known, _ := cx.answers.Get(key)
	if len(known) == 0 {
		return nil, nil
	}
	at, err := cx.reader.Projections.Node(s.ForkOf.At)
	if err != nil {
		return nil, err
	}
	for _, a := range known {
		both, err := lineage.IsAncestor(cx.reader.Projections, a.head, at)
		if err != nil {
			return nil, err
		}
		if both {
			out = append(out, a)
		}
	}
	return out, nil
}

// commonSums returns how many digests a and b begin with in common.
func commonSums(a, b []messageSum) (n int) {
	shorter := min(len(a), len(b))
	if shorter > 0 && &a[0] == &b[0] {
		return shorter
	}
	for n < shorter && a[n] == b[n] {
		n++
	}
	return n
}

// checkHave checks the member have of a request.
func checkHave(have *api.Have) error {
	if have == nil {
		return nil
	}
	if have.Fingerprint == "" {
		return api.FieldErrorf("/have/fingerprint", "missing")
	}
	for _, x := range [][2]string{{"/have/fingerprint", have.Fingerprint}, {"/have/preamble_digest", have.Preamble}} {
		if _, err := turns.ParseHash(x[1]); x[1] != "" && err != nil {
			return api.FieldErrorf(x[0], "%s", strings.TrimPrefix(err.Error(), "malformed: "))
		}
	}
	return nil
}

// leaveOut leaves out of a context what the caller has: the first keep messages, and the
// preamble if the request has the digest of the same. It returns where the first page begins.
func leaveOut(out *api.Context, keep int, cur page.ContextCursor, req *api.GetContext) page.ContextCursor {
	out.Keep, cur.Messages = keep, keep
	if req.Have.Preamble == out.PreambleDigest {
		out.System, out.Tools, out.KeepPreamble = nil, nil, true
	}
	return cur
}
