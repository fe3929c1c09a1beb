package search

import (
	"strings"
	"sync"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/lang/da"
	"github.com/blevesearch/bleve/v2/analysis/lang/de"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve/v2/analysis/lang/es"
	"github.com/blevesearch/bleve/v2/analysis/lang/fi"
	"github.com/blevesearch/bleve/v2/analysis/lang/fr"
	"github.com/blevesearch/bleve/v2/analysis/lang/it"
	"github.com/blevesearch/bleve/v2/analysis/lang/nl"
	"github.com/blevesearch/bleve/v2/analysis/lang/no"
	"github.com/blevesearch/bleve/v2/analysis/lang/pt"
	"github.com/blevesearch/bleve/v2/analysis/lang/ru"
	"github.com/blevesearch/bleve/v2/analysis/lang/sv"
	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/finnish"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/russian"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"
)

// language is what a query in words needs of a language. The index has nothing of it.
type language struct {
	stop analysis.TokenMap // words that say nothing of the subject
	stem func(*snowballstem.Env) bool
}

// languages are those that a query is recognized in, English first: a query without a
// stop word is taken for English.
var languages = sync.OnceValue(func() (out []language) {
	for _, l := range []struct {
		stop []byte
		stem func(*snowballstem.Env) bool
	}{
		{en.EnglishStopWords, english.Stem}, {de.GermanStopWords, german.Stem}, {fr.FrenchStopWords, french.Stem}, {es.SpanishStopWords, spanish.Stem},
		{it.ItalianStopWords, italian.Stem}, {pt.PortugueseStopWords, portuguese.Stem}, {nl.DutchStopWords, dutch.Stem}, {ru.RussianStopWords, russian.Stem},
		{sv.SwedishStopWords, swedish.Stem}, {da.DanishStopWords, danish.Stem}, {no.NorwegianStopWords, norwegian.Stem}, {fi.FinnishStopWords, finnish.Stem},
	} {
		words := analysis.NewTokenMap()
		_ = words.LoadBytes(l.stop) // it reads from memory
		out = append(out, language{words, l.stem})
	}
	for _, w := range questionWords {
		out[0].stop.AddToken(w)
	}
	return out
})

// questionWords are what the English list lacks of the words of questions, and the ends of
// short forms, since an apostrophe separates words.
var questionWords = strings.Fields("did does do doing done would could should will can may might must shall whose how many much s t d ll ve re m don didn doesn isn wasn")

// languageOf returns the language with the most stop words in a query.
func languageOf(units []unit) (best language) {
	most := -1
	for _, l := range languages() {
		n := 0
		for _, u := range units {
			if u.isWord() && l.stop[u.parts[0]] {
				n++
			}
		}
		if n > most {
			best, most = l, n
		}
	}
	return best
}

// stemOf returns the stem of a word.
func (l language) stemOf(word string) string {
	env := snowballstem.NewEnv(word)
	l.stem(env)
	return env.Current()
}

// isWord reports whether u is a single word, as it stands.
func (u *unit) isWord() bool { return len(u.parts) == 1 && !u.prefix && !u.quoted }
