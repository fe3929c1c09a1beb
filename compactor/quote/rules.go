package quote

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// demands are words, in lower case, of who says what must or must not be done. Those of
// scripts that write words with blanks must stand as words of their own.
var demands = [...]string{
	"must", "mustn't", "never", "always", "do not", "don't", "dont", "should not", "shouldn't", "may not", "not allowed", "make sure", "ensure",
	"forbidden", "under no circumstances", "requirement", "constraint", "avoid", "at most", "at least", "only use", "without asking", "no matter",
	"müssen", "muss", "darf", "dürfen", "niemals", "auf keinen fall", "jamais", "toujours", "ne pas", "il faut", "doit", "nunca", "siempre", "debe", "deve",
	"нельзя", "никогда", "всегда", "должен", "должны", "обязательно",
	"必须", "不要", "不能", "不得", "禁止", "务必", "一定要", "只能", "必ず", "しないで", "禁止", "てはいけ", "يجب", "ممنوع", "دائما", "أبدا", "لا ت", "반드시", "하지 마", "절대",
}

// Bounds on rules.
const (
	maxRule      = summary.MaxSentence // bytes of a rule
	maxRules     = 200
	userTextHead = 48 << 10 // bytes of a user's text: a longer one is a paste, with words
	userTextTail = 16 << 10 // before and after it
)

// Rules returns what users said must or must not be done: the earlier rules, then the
// sentences of halves, oldest first, each once and word for word, with white space
// folded. Only what a person wrote counts ([summary.Request]). No sentence takes a rule back: what a text says
// about the rules before it is one more rule at most.
func Rules(earlier []string, halves []summary.HalfTurn) []string {
	out := slices.Clone(earlier)
	known := make(map[string]bool, len(out))
	for _, r := range out {
		known[r] = true
	}
	for i := range halves {
		h := &halves[i]
		if h.Half != turns.MessagesHalf || h.Erased {
			continue
		}
		for j := range h.Messages {
			if h.Messages[j].Role != turns.User {
				continue
			}
			eachSentence(withoutPaste(summary.Request(summary.TextOf(&h.Messages[j]))), func(s string) {
				if !known[s] && isDemand(s) {
					known[s] = true
					out = append(out, s)
				}
			})
		}
	}
	return out[max(0, len(out)-maxRules):]
}

// place matches a line of a file, as reviews, compilers and traces name it.
var place = regexp.MustCompile(`[\w/-]\.[a-z]{1,5}:\d+`)

// withoutPaste returns the plain paragraphs of a text that names lines of files three
// times: the rest is a review or a log that the person pasted. The first one is the
// person's.
func withoutPaste(text string) string {
	if len(place.FindAllStringIndex(text, 3)) < 3 {
		return text
	}
	var b strings.Builder
	for p := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(text), "\r\n", "\n"), "\n\n") {
		if b.Len() == 0 || !strings.ContainsAny(p[:min(1, len(p))], "-*#0123456789`|> \t") && !place.MatchString(p) {
			b.WriteString(p)
			b.WriteString("\n")
		}
	}
	return b.String()
}

// FitRules returns the rules that fit a number of tokens. The oldest leave first.
func FitRules(rules []string, maxTokens uint64, c tokens.Counter) []string {
	for len(rules) > 0 && c.Text(RulesText(rules)) > maxTokens {
		rules = rules[1:]
	}
	return rules
}

// RulesText returns rules as a context shows them, between tags; "" for none.
func RulesText(rules []string) string {
	if len(rules) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n<user_rules>")
	for _, r := range rules {
		b.WriteString("\n- ")
		b.WriteString(summary.Data(r))
	}
	b.WriteString("\n</user_rules>")
	return b.String()
}

// eachSentence calls found for the sentences of a text, without fenced code and markup.
func eachSentence(text string, found func(string)) {
	if len(text) > userTextHead+userTextTail {
		text = text[:userTextHead] + "\n" + text[len(text)-userTextTail:]
	}
	fenced := false
	for l := range strings.SplitSeq(strings.ToValidUTF8(text, "\uFFFD"), "\n") {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "```") {
			fenced = !fenced
			continue
		}
		if fenced || l == "" || strings.HasPrefix(l, "<") {
			continue
		}
		summary.EachSentence(l, func(s string) {
			if s = oneLine(s); s != "" {
				found(s)
			}
		})
	}
}

// oneLine folds white space, drops hidden characters, and cuts a long text.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || turns.IsHidden(r) }), " ")
	if len(s) <= maxRule {
		return s
	}
	return strings.ToValidUTF8(s[:maxRule], "") + "…"
}

func isDemand(s string) bool {
	lower := strings.ToLower(strings.ReplaceAll(s, "’", "'"))
	return slices.ContainsFunc(demands[:], func(d string) bool { return hasWords(lower, d) })
}

// hasWords reports whether s holds w; in scripts with cases, as whole words.
func hasWords(s, w string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], w)
		if i < 0 {
			return false
		}
		i += from
		if !cased(w) || !letterBefore(s[:i]) && !letterAfter(s[i+len(w):]) {
			return true
		}
		from = i + len(w)
	}
}

func cased(w string) bool { return strings.ToUpper(w) != w }

func letterBefore(s string) bool {
	r := []rune(s[max(0, len(s)-4):])
	return len(r) > 0 && unicode.IsLetter(r[len(r)-1])
}

func letterAfter(s string) bool {
	for _, r := range s {
		return unicode.IsLetter(r)
	}
	return false
}
