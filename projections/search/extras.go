package search

import (
	"context"
	"math"

	"nexus/projections/search/ranking"
	"nexus/projections/search/words"
)

// Words that stand side by side, as they do in the query, count for more, and so does a
// whole identifier beside its words. The index knows wholes, and of pairs a hash that a
// long document has by chance: there it counts for little.
const (
	extraLeast = 2.0 // what an extra is worth beside its rarity: also words that all have say much in a row
	maxExtras  = 16
)

// extra is something of a query that a document may have beside its units.
type extra struct {
	pair  [2]string // two words in a row; or
	whole string    // an identifier
	units [2]int    // whose words they are
}

// extras returns what a document may have beside the units of q: those of its words that
// follow each other there, but for those that say nothing of the subject, and identifiers.
func (q Query) extras() (out []extra) {
	for i, u := range q.units {
		if len(out) == maxExtras {
			break
		}
		if u.whole != "" {
			out = append(out, extra{whole: u.whole, units: [2]int{i, i}})
		}
		if i+1 == len(q.units) || len(out) == maxExtras {
			break
		}
		next := q.units[i+1]
		if u.prefix || u.quoted || u.stop || next.stop || next.quoted || next.prefix && len(next.parts) == 1 {
			continue
		}
		out = append(out, extra{pair: [2]string{u.parts[len(u.parts)-1], next.parts[0]}, units: [2]int{i, i + 1}})
	}
	return out
}

// findExtras marks the extras that a text has with its next word, and reports whether one is missing.
func (m Matches) findExtras(s *finding, p words.Place) (missing bool) {
	word, before := s.text[p.Start:p.End], ""
	if len(m.wanted) > 0 && s.words > 0 {
		last := s.recent[(s.words-1)%s.longest]
		before = s.text[last.Start:last.End]
	}
	for i := range m.wanted {
		switch x := &m.wanted[i]; {
		case m.extras[i]:
			continue
		case p.Whole:
			m.extras[i] = x.whole != "" && words.IsTerm(word, x.whole)
		case x.whole == "":
			m.extras[i] = words.IsTerm(word, x.pair[1]) && words.IsTerm(before, x.pair[0])
		}
		missing = missing || !m.extras[i]
	}
	return missing
}

// extras adds to the scores what the extras of a query are worth in each document, and
// returns what each is.
func (s *scorer) extras(ctx context.Context, all []extra) (worth []float64, err error) {
	for _, x := range all {
		t := ranking.Term{Field: fieldWhole, Text: x.whole, Weight: 1}
		if x.whole == "" {
			t.Field, t.Text = fieldPair, pairTerm(x.pair[0], x.pair[1])
		}
		has := make([]float64, len(s.docs))
		df, err := s.term(ctx, t, has)
		if err != nil {
			return nil, err
		}
		value := extraLeast
		if x.whole != "" {
			value += idf(s.total, df)
		} else {
			value += s.rarity(x.units[0]) + s.rarity(x.units[1])
		}
		worth = append(worth, value)
		for j := range s.docs {
			if has[j] == 0 {
				continue
			}
			sure := 1.0
			if x.whole == "" { // one of so many hashes is there by chance
				sure = math.Exp(-s.words[j] / pairHashes)
			}
			s.docs[j].extra += value * sure
		}
	}
	return worth, nil
}

// rarity returns how rare the words of a unit are.
func (s *scorer) rarity(unit int) (sum float64) {
	for _, part := range s.units[unit] {
		sum += idf(s.total, part.df)
	}
	return sum
}

// idf is BM25's, of a term that df of so many documents have.
func idf(total, df float64) float64 { return math.Log(1 + (total-df+0.5)/(df+0.5)) }
