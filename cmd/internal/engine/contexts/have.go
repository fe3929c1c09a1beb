package contexts

import (
	"crypto/sha256"
	"slices"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

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
// In one format, for one model, a fingerprint says what the messages are, as long as the
// settings do not change at the same head: OpenAI's messages begin with the system part,
// and the session's model decides which signatures are left out. So a reply is remembered
// and compared only if a turn came since the settings, and under the same settings.

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
	under       string       // the digest of the preamble, and whose signatures stayed
	head        lineage.Node // the turn that the call followed
	sums        []messageSum
}

// answers are the last replies, the newest first. Nobody changes them.
type answers []answer

func (as answers) size() (n int) {
	const frame = 256
	for _, a := range as {
		n += frame + len(a.under) + len(a.sums)*len(messageSum{})
	}
	return n
}

// sumsOf returns the digests of rendered messages. It takes those that before holds of the
// same memory.
func sumsOf(ms, before []jsontext.Value, sums []messageSum) []messageSum {
	out := make([]messageSum, len(ms))
	for i, m := range ms {
		if i < len(before) && len(m) == len(before[i]) && unsafe.SliceData(m) == unsafe.SliceData(before[i]) {
			out[i] = sums[i]
			continue
		}
		h := sha256.Sum256(m)
		copy(out[i][:], h[:])
	}
	return out
}

// keepOf remembers the reply to a request for the next call, and returns how many messages of
// it the caller has: those that it begins with in common with the reply that have names; 0 if
// that is not known. epoch is of before a key was read; model is whose signatures are in it.
func (cx *Contexts) keepOf(epoch uint64, s *ledger.Session, head lineage.Node, req *api.GetContext, whole *api.Context, model string, sums []messageSum) (int, error) {
	if head.Ref != s.Head || req.Recipe != nil || req.Recorded {
		return 0, nil
	}
	since := uint64(openingIndex) // the index of the newest turn; that of the opening if it is inherited
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
	mine := answer{whole.Fingerprint, s.Settings, whole.PreambleDigest + " " + model, head, sums}
	keep, found := len(sums), false
	if req.Have != nil {
		of, err := cx.inherited(s, key, &mine)
		if err != nil {
			return 0, err
		}
		for _, a := range known {
			if a.settings == s.Settings {
				of = append(of, a)
			}
		}
		for _, a := range of {
			if a.fingerprint == req.Have.Fingerprint {
				keep, found = min(keep, commonSums(a.sums, sums)), true
			}
		}
	}
	now := answers{mine}
	for _, a := range known {
		same := a.fingerprint == whole.Fingerprint && a.settings == s.Settings && slices.Equal(a.sums, sums)
		if !same && len(now) < maxAnswers {
			now = append(now, a)
		}
	}
	cx.answers.PutIn(epoch, key, now, now.size())
	if !found {
		return 0, nil
	}
	return keep, nil
}

// inherited returns the replies to the session that s is a fork of, as far as they tell what a caller of s has: they were
// made at turns that s has too, and under settings that are in force there now and are those of s, of its first to its last
// call. So whoever was sent such a fingerprint, by either session, has the same messages.
func (cx *Contexts) inherited(s *ledger.Session, key answersKey, mine *answer) (out answers, err error) {
	if s.ForkOf == nil || s.Settings != openingIndex {
		return nil, nil
	}
	key.session = s.ForkOf.At.Session
	known, _ := cx.answers.Get(key)
	if len(known) == 0 {
		return nil, nil
	}
	of, err := cx.reader.Projections.Session(key.session)
	if err != nil {
		return nil, err
	}
	at, err := cx.reader.Projections.Node(s.ForkOf.At)
	if err != nil {
		return nil, err
	}
	for _, a := range known {
		if a.settings != of.Settings || a.under != mine.under {
			continue
		}
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

// openingIndex is the chain index of the settings that a session was opened with.
const openingIndex = 0

// commonSums returns how many digests a and b begin with in common.
func commonSums(a, b []messageSum) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// checkHave checks the member have of a request.
func checkHave(have *api.Have) error {
	if have == nil {
		return nil
	}
	if _, err := turns.ParseHash(have.Fingerprint); err != nil {
		return api.FieldErrorf("/have/fingerprint", "%v", err)
	}
	if _, err := turns.ParseHash(have.Preamble); have.Preamble != "" && err != nil {
		return api.FieldErrorf("/have/preamble_digest", "%v", err)
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
