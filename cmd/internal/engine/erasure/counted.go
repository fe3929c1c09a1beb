package erasure

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"nexus/ledger/api"
	"nexus/turns"
)

// countedParts is what the spans of a request count in.
type countedParts struct {
	was     *turns.RedactedBody // of an earlier redaction; nil: there is none
	digests map[int]string      // of the parts as they are before this request, by number
}

// check refuses a span that may count in what its part had before something was taken out of it: it would take other bytes, for ever, and
// leave those that are meant. A request that was made before another one was stored is such a one. Of a part that was never
// redacted there is one text to count in; of another one the span states the digest of what it counts in.
func (c countedParts) check(span api.RedactSpan, field string, p *turns.Part) error {
	digest, ok := c.digests[span.Part]
	if !ok {
		sum := sha256.Sum256(p.ContentBytes())
		digest = hex.EncodeToString(sum[:])
		c.digests[span.Part] = digest
	}
	switch {
	case span.Digest == digest:
		return nil
	case span.Digest != "":
		return api.Errorf(api.Conflict, map[string]any{"field": field + "/digest", "part": span.Part}, "part %d is not the text that the span counts in: read it again", span.Part)
	case c.was != nil && slices.Contains(c.was.Taken(), span.Part):
		return api.Errorf(api.Conflict, map[string]any{"field": field, "part": span.Part}, "something was taken out of part %d before, and the span may count in what it had then: state the digest of the text that it counts in, SHA-256 in hex", span.Part)
	}
	return nil
}
