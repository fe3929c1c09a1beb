// Package picker is a list on a terminal from which a person picks a session: typing
// filters it, a key says what to do with the one that is marked.
//
// ledgerctl without arguments shows it. It imports nothing of this project: the caller
// supplies the lines, without anything in them that a terminal would act on. [Picker] is a
// pure state; Bubble Tea draws it and reads the keys.
package picker

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Item is a line of the list.
type Item struct {
	ID   string
	Line string
	Less string // in place of Line on a narrow screen; empty: Line
	Find string // what a filter looks in, beside Line
}

// Action is what a person wants of an item.
type Action string

// The actions. None: the person left.
const (
	None    Action = ""
	Log     Action = "log"
	Tree    Action = "tree"
	Context Action = "context"
)

// Picker is the state of a list. The zero value is an empty list.
type Picker struct {
	Items  []Item
	Filter string
	Marked int // index into the items that the filter leaves

	width, height int
	action        Action
}

// matches returns the items that have every word of the filter.
func (p *Picker) matches() (out []Item) {
	words := strings.Fields(strings.ToLower(p.Filter))
	for _, it := range p.Items {
		text := strings.ToLower(it.Line + " " + it.Find)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			out = append(out, it)
		}
	}
	return out
}

// narrow is how wide a screen has to be for the lines of the items.
const narrow = 70

// rows is how many items there is room for.
func (p *Picker) rows() int { return max(1, p.height-2) }

// Press changes the list by a key; done says that the person has picked or left.
func (p *Picker) Press(key tea.Key) (done bool) {
	n := len(p.matches())
	switch name := key.String(); name {
	case "ctrl+c":
		p.action = None
		return true
	case "esc":
		if p.Filter == "" {
			p.action = None
			return true
		}
		p.Filter, p.Marked = "", 0
	case "enter", "ctrl+t", "ctrl+o":
		if n == 0 {
			return false
		}
		p.action = map[string]Action{"enter": Log, "ctrl+t": Tree, "ctrl+o": Context}[name]
		return true
	case "up", "ctrl+p":
		p.Marked--
	case "down", "ctrl+n":
		p.Marked++
	case "pgup":
		p.Marked -= p.rows()
	case "pgdown":
		p.Marked += p.rows()
	case "home":
		p.Marked = 0
	case "end":
		p.Marked = n - 1
	case "backspace":
		if rs := []rune(p.Filter); len(rs) > 0 {
			p.Filter, p.Marked = string(rs[:len(rs)-1]), 0
		}
	case "ctrl+u":
		p.Filter, p.Marked = "", 0
	default:
		if key.Text != "" && !strings.ContainsFunc(key.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			p.Filter, p.Marked = p.Filter+key.Text, 0
		}
	}
	p.Marked = max(0, min(p.Marked, len(p.matches())-1))
	return false
}

// Screen returns what the terminal shows.
func (p *Picker) Screen() string {
	faint, marked := lipgloss.NewStyle().Faint(true), lipgloss.NewStyle().Reverse(true)
	list := p.matches()
	var b strings.Builder
	count := fmt.Sprintf("%d of %d", len(list), len(p.Items))
	if count += " sessions"; p.Filter == "" {
		count += ", type words of a title, folder or branch"
	}
	b.WriteString(ansi.Truncate("> "+p.Filter+"▏ "+faint.Render(count), p.width, "…") + "\n")
	if len(list) == 0 && p.Filter != "" {
		b.WriteString(ansi.Truncate("  ledgerctl search looks in what was said", p.width, "…") + "\n")
	}
	from := max(0, min(p.Marked-p.rows()/2, len(list)-p.rows()))
	for i := from; i < len(list) && i < from+p.rows(); i++ {
		text := list[i].Line
		if p.width < narrow && list[i].Less != "" {
			text = list[i].Less
		}
		line := ansi.Truncate("  "+text, p.width, "…")
		if i == p.Marked {
			line = marked.Render(ansi.Truncate("▸ "+text, p.width, "…"))
		}
		b.WriteString(line + "\n")
	}
	keys := "enter log · ctrl+t tree · ctrl+o context · esc leave"
	if p.Filter != "" {
		keys = "enter log · ctrl+t tree · ctrl+o context · esc all sessions"
	}
	if ansi.StringWidth(keys) > p.width {
		keys = "enter log · ^t tree · ^o context · esc"
	}
	b.WriteString(faint.Render(ansi.Truncate(keys, p.width, "…")))
	return b.String()
}

// model runs a Picker in Bubble Tea.
type model struct{ p *Picker }

// Init implements [tea.Model].
func (m model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.p.width, m.p.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if m.p.Press(tea.Key(msg)) {
			return m, tea.Quit
		}
	}
	return m, nil
}

// View implements [tea.Model].
func (m model) View() tea.View {
	v := tea.NewView(m.p.Screen())
	v.AltScreen = true
	return v
}

// Run shows the list on a terminal until the person picks an item or leaves. It keeps the
// filter and the mark for another run.
func (p *Picker) Run(ctx context.Context, in io.Reader, out io.Writer) (id string, action Action, err error) {
	p.action = None
	_, err = tea.NewProgram(model{p}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out)).Run()
	list := p.matches()
	if err != nil || p.action == None || p.Marked >= len(list) {
		return "", None, err
	}
	return list[p.Marked].ID, p.action, nil
}
