package extractive

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A cue is a word or phrase, in lower case, that changes the worth of a sentence.
// Cues help where they match. Text in a language without cues is ranked by
// centrality, place and facts alone.
type cue struct {
	text   string
	weight float64
}

// Words of users who set a task or limit it.
var askCues = [...]cue{
	{"must", 2}, {"never", 2}, {"always", 1.6}, {"do not", 2}, {"don't", 2}, {"dont", 1.5}, {"should", 1}, {"shouldn't", 1.5},
	{"only", .8}, {"without", .8}, {"make sure", 1.5}, {"ensure", 1.2}, {"required", 1.2}, {"requirement", 1.5}, {"need", .7},
	{"instead", 1.2}, {"prefer", 1.2}, {"want", .7}, {"avoid", 1.4}, {"keep", .6}, {"not allowed", 1.6}, {"important", 1},
	{"constraint", 1.5}, {"cannot", .8}, {"at most", 1}, {"at least", 1}, {"deadline", 1}, {"please", .3}, {"fix", .5}, {"implement", .6},
	{"必须", 2}, {"不要", 2}, {"不能", 1.6}, {"禁止", 2}, {"务必", 2}, {"应该", 1}, {"一定", 1.2}, {"只能", 1.4}, {"需要", .7}, {"请", .3}, {"而不是", 1.2},
	{"必ず", 2}, {"しないで", 2}, {"べき", 1}, {"だけ", .7}, {"ください", .5}, {"てはいけ", 2}, {"代わりに", 1.2}, {"必要", .7},
	{"يجب", 2}, {"لا ت", 1.6}, {"دائما", 1.4}, {"ممنوع", 2}, {"فقط", .8}, {"أبدا", 1.6}, {"بدلا", 1},
	{"должен", 1.5}, {"нельзя", 2}, {"никогда", 2}, {"всегда", 1.4}, {"только", .8}, {"нужно", .7}, {"вместо", 1},
	{"muss", 1.6}, {"müssen", 1.6}, {"niemals", 2}, {"nicht", .8}, {"immer", 1.2}, {"darf", 1.4}, {"nur", .6},
	{"doit", 1.6}, {"jamais", 2}, {"toujours", 1.2}, {"ne pas", 2}, {"debe", 1.6}, {"nunca", 2}, {"siempre", 1.2}, {"deve", 1.4},
	{"반드시", 2}, {"하지 마", 2}, {"절대", 1.6}, {"해야", 1},
}

// Words of agents that decide, find or finish something.
var sayCues = [...]cue{
	{"decided", 2}, {"decision", 1.6}, {"chose", 1.6}, {"choose", 1}, {"because", 1}, {"root cause", 2}, {"the problem", 1.4},
	{"the issue", 1.4}, {"the bug", 1.4}, {"turns out", 1.4}, {"instead", 1.2}, {"fixed", 1.2}, {"the fix", 1.4}, {"means that", .7},
	{"found", .7}, {"confirmed", 1}, {"passes", .8}, {"passed", .8}, {"fails", 1}, {"failed", .8}, {"failing", .8}, {"must", .8}, {"cannot", .8},
	{"never", .6}, {"therefore", .8}, {"committed", 1}, {"created", .7}, {"implemented", 1}, {"added", .6}, {"removed", .7}, {"renamed", .8}, {"replaced", .7},
	{"approach", .7}, {"remaining", 1}, {"not yet", 1}, {"trade-off", 1}, {"tradeoff", 1}, {"already", .4}, {"recommend", .8}, {"important", .6},
	{"决定", 2}, {"因为", 1}, {"原因", 1.4}, {"问题", .8}, {"修复", 1.2}, {"改为", 1.2}, {"选择", 1}, {"已经", .5}, {"失败", 1}, {"通过", .6},
	{"決め", 2}, {"決定", 2}, {"ため", .5}, {"修正", 1.2}, {"問題", .8}, {"失敗", 1}, {"代わりに", 1},
	{"قررت", 2}, {"قرر", 1.6}, {"بسبب", 1}, {"لأن", 1}, {"المشكلة", 1.2}, {"أصلحت", 1.2}, {"السبب", 1.4},
	{"решил", 2}, {"потому", 1}, {"причина", 1.4}, {"проблема", 1}, {"исправ", 1.2}, {"entschieden", 2}, {"weil", 1}, {"ursache", 1.4},
	{"décidé", 2}, {"parce que", 1}, {"decidí", 2}, {"porque", 1}, {"결정", 2}, {"때문", 1}, {"문제", .8},
}

// Words of agents that announce the next step. The calls show what they did, so
// these sentences add nothing.
var fillers = [...]string{
	"let me", "now let", "now i", "i'll", "i will", "perfect", "great", "good", "excellent", "sure", "ok", "here's", "here is", "let's",
	"让我", "现在", "好的", "では", "次に",
}

// cueWeight returns the sum of a sentence's cues, at most 4.
func cueWeight(lower string, cues []cue) (w float64) {
	for _, c := range cues {
		if hasCue(lower, c.text) {
			if w += c.weight; w >= 4 {
				return 4
			}
		}
	}
	return w
}

// hasCue reports whether lower holds c. An ASCII cue must be a whole word.
func hasCue(lower, c string) bool {
	for from := 0; ; {
		i := strings.Index(lower[from:], c)
		if i < 0 {
			return false
		}
		i += from
		if c[0] >= utf8.RuneSelf || bounded(lower, i, i+len(c)) {
			return true
		}
		from = i + len(c)
	}
}

// bounded reports whether a word may begin at s[i] and end before s[j].
func bounded(s string, i, j int) bool {
	return (i == 0 || !wordByte(s[i-1])) && (j == len(s) || !wordByte(s[j]))
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

func isFiller(lower string) bool {
	for _, f := range fillers {
		if strings.HasPrefix(lower, f) && (f[0] >= utf8.RuneSelf || bounded(lower, 0, len(f))) {
			return true
		}
	}
	return false
}

// present matches what an agent says it is doing. The calls show it.
var present = regexp.MustCompile(`^(now )?(i'm|i am) (now |also |going to |just )?\pL+`)

// saysNothing reports whether a sentence of an agent is an exclamation or announces what
// the calls show anyway.
func saysNothing(s string) bool {
	lower := strings.ReplaceAll(strings.ToLower(s), "’", "'")
	if factsIn(s) == 0 && isASCII(s) && len(strings.Fields(s)) <= 2 {
		return true
	}
	return (isFiller(lower) || present.MatchString(lower)) && cueWeight(lower, sayCues[:]) < 1
}

// leadsOn reports whether a sentence is short, names nothing, and so needs the next one.
func leadsOn(s string) bool {
	return factsIn(s) == 0 && isASCII(s) && len(strings.Fields(s)) <= 6
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf && unicode.IsLetter(r) }) < 0
}

// askWeight returns the worth of a user's sentence by itself.
func askWeight(s string) float64 {
	if strings.HasPrefix(s, "<") && strings.Contains(s, ">") {
		return -1 // markup
	}
	return 1 + cueWeight(strings.ToLower(s), askCues[:]) - noise(s)
}

// sayWeight returns the worth of an agent's sentence by itself.
func sayWeight(s string) float64 {
	lower := strings.ToLower(s)
	w := .5 + cueWeight(lower, sayCues[:]) + min(1.2, .4*float64(factsIn(s)))
	if isFiller(lower) {
		w -= 1.6
	}
	if strings.HasPrefix(s, "#") || strings.HasSuffix(s, ":") {
		w -= .8 // a heading announces, it does not report
	}
	return w - noise(s)
}

// reportWeight returns the worth of a sentence that another agent reported.
func reportWeight(s string) float64 { return sayWeight(s) - .5 }

// noise returns what a line loses for being a table, a rule or code instead of a
// sentence.
func noise(s string) float64 {
	odd, all := 0, 0
	for _, r := range s {
		all++
		if r < utf8.RuneSelf && !wordByte(byte(r)) && r != ' ' && r != '.' && r != ',' && r != '/' && r != '-' && r != '`' {
			odd++
		}
	}
	switch {
	case all < 12:
		return .6
	case odd*4 > all:
		return 1.5
	case odd*7 > all:
		return .5
	}
	return 0
}

// announces reports whether a sentence announces the next step.
func announces(lower string) bool {
	for _, c := range [...]string{"next", "remaining", "still", "todo", "need to", "left to", "not yet", "下一步", "接下来", "剩", "还需", "次は", "残り", "بعد ذلك", "المتبقي", "осталось", "далее", "다음"} {
		if hasCue(lower, c) {
			return true
		}
	}
	return false
}
