package search

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"

	"github.com/blevesearch/bleve/v2/document"
	index "github.com/blevesearch/bleve_index_api"

	"nexus/projections/search/words"
)

// The fields of a document. None is stored, and none has a column of values: what a reply
// shows is read from the ledger.
const (
	fieldSaid, fieldCalls, fieldOutput = "said", "calls", "output" // words with how often each is there
	fieldWhole                         = "whole"                   // identifiers of several parts as one word
	fieldPair                          = "pair"                    // hashes of words that follow each other
	// fieldPlace has the segment of a turn and its depth in steps of placeDepths; fieldDay
	// and fieldHour have the time, fieldBlock the position in steps of blockRecords. A bound
	// between two steps is kept by the caller.
	fieldPlace, fieldDay, fieldHour, fieldBlock = "place", "day", "hour", "block"
)

const (
	placeDepths  = 64
	blockRecords = 1024
	hour         = int64(3600e9)
	day          = 24 * hour
)

// textFields are the fields that a query looks in, with their weights.
var textFields = []struct {
	field string
	boost float64
}{{fieldSaid, 1}, {fieldCalls, 0.8}, {fieldOutput, 0.5}}

// indexed returns a document as the index takes it.
//
// The library can store the positions of each word. They take more bytes than the text, so
// it is given none: a phrase is its words and the hashes of its pairs, of ten bits: a bit each
// in a large segment. Of the documents of 100 words that have both words of a phrase, but not
// in a row, one in eleven has the hash by chance, and fewer of longer phrases. The caller reads
// the text for the reply, and leaves those out.
func (d *Document) indexed() *document.Document {
	out := document.NewDocument(d.ID)
	wholes, pairs := field{name: fieldWhole}, field{name: fieldPair}
	for _, f := range []struct {
		name  string
		texts []string
	}{{fieldSaid, d.Said}, {fieldCalls, d.Calls}, {fieldOutput, d.Output}} {
		terms := field{name: f.name, counted: true}
		for _, text := range f.texts {
			last := ""
			for _, w := range words.Of(text) {
				if w.Whole {
					wholes.add(w.Term)
					continue
				}
				terms.add(w.Term)
				if last != "" {
					pairs.add(pairTerm(last, w.Term))
				}
				last = w.Term
			}
		}
		terms.to(out)
	}
	wholes.to(out)
	pairs.to(out)
	set := func(name string, values ...string) {
		f := field{name: name}
		for _, v := range values {
			if v != "" {
				f.add(v)
			}
		}
		f.to(out)
	}
	for _, f := range []struct{ name, value string }{
		{"kind", d.Kind}, {"tenant", d.Tenant}, {"agent", d.Agent}, {"session", d.Session}, {"model", d.Model}, {"source", d.Source}, {"branch", d.Branch},
		{"cwd", bound(d.Cwd)}, {fieldDay, timeTerm(d.Time, day)}, {fieldHour, timeTerm(d.Time, hour)},
	} {
		set(f.name, f.value)
	}
	set("tool", d.Tools...)
	set("role", d.Roles...)
	set("key", d.Keys...)
	if seq, _, err := ParseDocumentID(d.ID); err == nil {
		set(fieldBlock, blockTerm(seq))
	}
	if d.Segment != "" {
		set(fieldPlace, placeTerm(d.Segment, d.Depth))
	}
	return out
}

// field is a field of a document, whose terms are known. It implements the library's Field.
type field struct {
	name    string
	counted bool // how often each term is there matters
	length  int
	terms   index.TokenFrequencies
}

func (f *field) add(s string) {
	if f.terms == nil {
		f.terms = make(index.TokenFrequencies)
	}
	t := f.terms[s]
	if t == nil {
		t = &index.TokenFreq{Term: []byte(s)}
		f.terms[s] = t
	}
	if f.length++; f.counted {
		t.SetFrequency(t.Frequency() + 1)
	}
}

func (f *field) to(d *document.Document) {
	if f.length > 0 {
		d.AddField(f)
	}
}

func (f *field) Name() string                                     { return f.name }
func (f *field) Value() []byte                                    { return nil }
func (f *field) ArrayPositions() []uint64                         { return nil }
func (f *field) EncodedFieldType() byte                           { return 't' }
func (f *field) Analyze()                                         {}
func (f *field) NumPlainTextBytes() uint64                        { return 0 }
func (f *field) Size() int                                        { return 64 * len(f.terms) }
func (f *field) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.terms }

// AnalyzedLength is the number of words as [lengthOf] reads it. One byte holds it.
func (f *field) AnalyzedLength() int {
	if !f.counted {
		return 1
	}
	return 1 + int(math.Round(8*math.Log2(float64(f.length))))
}

// lengthOf returns the number of words that a length of the index stands for, to 5 %.
func lengthOf(n float64) float64 { return math.Exp2((n - 1) / 8) }

func (f *field) Options() index.FieldIndexingOptions {
	if f.counted {
		return index.IndexField
	}
	return index.IndexField | index.SkipFreqNorm
}

// pairHashes is how many hashes of pairs there are.
const pairHashes = 1024

// pairTerm returns the hash of two words that follow each other.
func pairTerm(a, b string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(a)) // it does not fail
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(b))
	n := h.Sum32()
	n ^= n >> 16
	return string([]byte{byte(n>>8) & 0x03, byte(n)})
}

// bound cuts a term.
func bound(s string) string {
	if len(s) > 4*words.MaxTerm {
		s = s[:4*words.MaxTerm]
	}
	return s
}

// timeTerm returns the step of a time, as a term that sorts by it.
func timeTerm(ns, step int64) string {
	n := ns / step
	if ns%step < 0 {
		n--
	}
	return fmt.Sprintf("%06x", n+1<<22)
}

func blockTerm(seq uint64) string { return fmt.Sprintf("%014x", seq/blockRecords) }

func placeTerm(segment string, depth uint64) string {
	return segment + "/" + fmt.Sprintf("%014x", depth/placeDepths)
}

// MaxPosition is the last position whose documents have ids that sort by it.
const MaxPosition = 1<<44 - 2

// DocumentID returns the id of a document: the position of its event, and its number
// within that. Ids sort by the position.
func DocumentID(seq uint64, item uint64) string { return fmt.Sprintf("%011x.%d", seq, item) }

// ParseDocumentID is the inverse of [DocumentID].
func ParseDocumentID(id string) (seq, item uint64, err error) {
	a, b, ok := strings.Cut(id, ".")
	if ok {
		if seq, err = strconv.ParseUint(a, 16, 64); err == nil {
			item, err = strconv.ParseUint(b, 10, 64)
		}
	}
	if !ok || err != nil {
		return 0, 0, fmt.Errorf("%q is not the id of a document", id)
	}
	return seq, item, nil
}

// ranges of terms that hold a time in [from, to); 0 is open.
func timeTerms(from, to int64) (out [][3]string) {
	last := to - 1
	if to == 0 {
		last = math.MaxInt64
	}
	low, high := timeTerm(from, day), timeTerm(last, day)
	switch {
	case from == 0 && to == 0:
		return nil
	case from != 0 && low == high:
		return [][3]string{{fieldHour, timeTerm(from, hour), timeTerm(last, hour)}}
	}
	first, end := "", ""
	if from != 0 {
		first = timeTerm(from+day, day)
		out = append(out, [3]string{fieldHour, timeTerm(from, hour), lastHour(from)})
	}
	if to != 0 {
		end = timeTerm(last-day, day)
		out = append(out, [3]string{fieldHour, firstHour(last), timeTerm(last, hour)})
	}
	if first == "" || end == "" || first <= end {
		out = append(out, [3]string{fieldDay, first, end})
	}
	return out
}

// floor returns the beginning of the day of a time.
func floor(ns int64) int64 {
	n := ns - ns%day
	if ns%day < 0 {
		n -= day
	}
	return n
}

func firstHour(ns int64) string { return timeTerm(floor(ns), hour) }
func lastHour(ns int64) string  { return timeTerm(floor(ns)+day-1, hour) }
