package picker

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

func list() *Picker {
	p := &Picker{width: 40, height: 6}
	for i := range 20 {
		p.Items = append(p.Items, Item{ID: fmt.Sprint(i), Line: fmt.Sprintf("session %d about %s", i, []string{"cats", "Dogs"}[i%2]), Find: "branch" + fmt.Sprint(i)})
	}
	return p
}

// keys presses keys by their names; a text is typed.
func keys(t *testing.T, p *Picker, names ...string) (done bool) {
	t.Helper()
	codes := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "end": {Code: tea.KeyEnd}, "pgdown": {Code: tea.KeyPgDown},
		"backspace": {Code: tea.KeyBackspace}, "ctrl+t": {Code: 't', Mod: tea.ModCtrl}, "ctrl+o": {Code: 'o', Mod: tea.ModCtrl}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}}
	for _, n := range names {
		if k, ok := codes[n]; ok {
			done = p.Press(k)
			continue
		}
		for _, r := range n {
			done = p.Press(tea.Key{Code: r, Text: string(r)})
		}
	}
	return done
}

func TestTypingFiltersByEveryWord(t *testing.T) {
	p := list()
	if keys(t, p, "dogs branch1"); len(p.matches()) != 6 { // 1, 11, 13, 15, 17, 19
		t.Errorf("%v", p.matches())
	}
	if keys(t, p, "9"); len(p.matches()) != 1 || p.matches()[0].ID != "19" {
		t.Errorf("%v", p.matches())
	}
	if keys(t, p, "backspace"); len(p.matches()) != 6 {
		t.Errorf("%v", p.matches())
	}
	if keys(t, p, "esc") || p.Filter != "" || len(p.matches()) != 20 {
		t.Error("esc does not clear the filter first")
	}
	if !keys(t, p, "esc") || p.action != None {
		t.Error("a second esc does not leave")
	}
}

func TestKeysPickTheMarkedItem(t *testing.T) {
	for name, want := range map[string]Action{"enter": Log, "ctrl+t": Tree, "ctrl+o": Context, "ctrl+c": None} {
		p := list()
		if !keys(t, p, "down", "down", "up", name) || p.action != want || p.Marked != 1 {
			t.Errorf("%s: %q, item %d", name, p.action, p.Marked)
		}
	}
	p := list()
	if keys(t, p, "nothing has this", "enter") {
		t.Error("an item was picked from an empty list")
	}
}

// The screen says what a filter looks in, and which keys there are, also where it is narrow.
func TestScreenSaysWhatAFilterLooksIn(t *testing.T) {
	p := list()
	p.width = 80
	if s := ansi.Strip(p.Screen()); !strings.Contains(s, "type words of a title, folder or branch") || !strings.Contains(s, "ctrl+o context · esc leave") {
		t.Error(s)
	}
	keys(t, p, "none of it")
	if s := ansi.Strip(p.Screen()); !strings.Contains(s, "ledgerctl search looks in what was said") {
		t.Error(s)
	}
	p.width = 40
	p.Items[0].Less, p.Filter = "about cats", ""
	if s := ansi.Strip(p.Screen()); !strings.Contains(s, "▸ about cats\n") || strings.Contains(s, "session 0") {
		t.Error(s)
	}
	if s := ansi.Strip(p.Screen()); !strings.Contains(s, "^o context · esc") {
		t.Error(s)
	}
}

// The mark is on the screen wherever it is, and no line is wider than the terminal.
func TestScreenHoldsTheMark(t *testing.T) {
	for _, moves := range [][]string{nil, {"up"}, {"end"}, {"pgdown", "pgdown"}, {"end", "down"}, {"dogs", "end"}, {"none of it"}} {
		p := list()
		keys(t, p, moves...)
		lines := strings.Split(ansi.Strip(p.Screen()), "\n")
		if len(lines) > p.height {
			t.Errorf("%v: %d lines", moves, len(lines))
		}
		marks := 0
		for _, l := range lines {
			if ansi.StringWidth(l) > p.width {
				t.Errorf("%v: wide: %q", moves, l)
			}
			if strings.HasPrefix(l, "▸ ") {
				marks++
				if !strings.Contains(l, p.matches()[p.Marked].Line[:9]) {
					t.Errorf("%v: %q", moves, l)
				}
			}
		}
		if (marks == 1) != (len(p.matches()) > 0) {
			t.Errorf("%v: %d marks", moves, marks)
		}
	}
}
