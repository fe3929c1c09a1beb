package acts

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
)

// A text is found in the content of a part, and in the JSON of a call or a result in each string, however that escapes it.
func TestPlacesOfATextInAPart(t *testing.T) {
	for name, x := range map[string]struct {
		kind          turns.PartType
		content, text string
		want          []string // what the places have
	}{
		"a text, twice":               {turns.Text, "the key k-1, and k-1 again", "k-1", []string{"k-1", "k-1"}},
		"without overlaps":            {turns.Text, "aaaaa", "aa", []string{"aa", "aa"}},
		"nothing":                     {turns.Text, "the key", "k-1", nil},
		"more bytes than characters":  {turns.Reasoning, "für Zoë, für", "Zoë", []string{"Zoë"}},
		"no JSON where there is none": {turns.Text, `"a\nb" and a` + "\n" + `b`, "a\nb", []string{"a\nb"}},
		"a string of a call":          {turns.ToolCall, `{"command":"cat k-1"}`, "k-1", []string{"k-1"}},
		"a name of a call":            {turns.ToolCall, `{"k-1":1}`, "k-1", []string{"k-1"}},
		"a line end":                  {turns.ToolCallResponse, `"one\ntwo\nthree"`, "one\ntwo", []string{`one\ntwo`}},
		"signs that are escaped":      {turns.ToolCall, `{"a":"say \"k\" \\ \/","b":1}`, `"k" \ /`, []string{`\"k\" \\ \/`}},
		"numbers of characters":       {turns.ToolCall, `{"a":"Zo\u00eb \ud83d\ude00 Zoë"}`, "Zoë", []string{`Zo\u00eb`, "Zoë"}},
		"two units":                   {turns.ToolCall, `{"a":"x\ud83d\ude00y"}`, "😀", []string{`\ud83d\ude00`}},
		"half of two units":           {turns.ToolCall, `{"a":"x\ud83dy\udz"}`, "y", []string{"y"}},
		"not over two strings":        {turns.ToolCall, `{"a":"k","b":"1"}`, `k","b":"1`, nil},
		"an empty string":             {turns.ToolCall, `{"a":"","b":"k-1"}`, "k-1", []string{"k-1"}},
	} {
		var got []string
		for _, at := range placesOf(&turns.Part{Type: x.kind}, []byte(x.content), x.text) {
			got = append(got, x.content[at[0]:at[1]])
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// The places of any text in any string are those of a slow search, wherever characters are escaped.
func TestPlacesAreThoseOfASlowSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := []string{"a", "b", "\"", "\\", "\n", "é", "😀", "/", "\u2028"}
		said := ""
		for range rapid.IntRange(0, 12).Draw(t, "length") {
			said += rapid.SampledFrom(alphabet).Draw(t, "sign")
		}
		text := rapid.SampledFrom([]string{"a", "ab", "\"", "\n", "é", "😀a", "aa"}).Draw(t, "text")
		raw := "["
		var want [][2]int
		var at []int
		json := `"`
		for _, r := range said {
			at = append(at, len(raw)+len(json))
			one, err := turns.EncodeJSON(string(r))
			if err != nil {
				t.Fatal(err)
			}
			switch inside := string(one[1 : len(one)-1]); {
			case r == '/' && rapid.Bool().Draw(t, "escaped"):
				json += `\/`
			case r == 'é' && rapid.Bool().Draw(t, "escaped"):
				json += `\u00E9`
			default:
				json += inside
			}
		}
		at = append(at, len(raw)+len(json))
		raw += json + `"]`
		signs, sought := []rune(said), []rune(text)
		for i := 0; i+len(sought) <= len(signs); {
			if slices.Equal(signs[i:i+len(sought)], sought) {
				want = append(want, [2]int{at[i], at[i+len(sought)]})
				i += len(sought)
			} else {
				i++
			}
		}
		if got := placesOf(&turns.Part{Type: turns.ToolCall}, []byte(raw), text); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q in %s: %v, want %v", text, raw, got, want)
		}
	})
}

// Bytes that are no JSON, which no part has, stop nothing.
func FuzzPlacesOfAText(f *testing.F) {
	f.Add(`{"a":"\ud83d`, "a")
	f.Add(`"\`, "x")
	f.Add(`"\u12`, `\u12`)
	f.Fuzz(func(t *testing.T, content, text string) {
		if text == "" {
			return
		}
		last := 0
		for _, at := range placesOf(&turns.Part{Type: turns.ToolCall}, []byte(content), text) {
			if at[0] < last || at[1] <= at[0] || at[1] > len(content) {
				t.Fatalf("%v in %q", at, content)
			}
			last = at[1]
		}
	})
}
