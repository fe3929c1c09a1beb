package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Hook is a command that an agent runs at an event.
type Hook struct {
	Event   string
	Timeout int // seconds
}

// Of returns the hooks of an agent. Claude Code ends a hook of SessionEnd after 1.5 s.
func Of(agent string) []Hook {
	switch agent {
	case "claude", "codex":
		return []Hook{{"SessionStart", 10}, {"PreCompact", 10}, {"PostCompact", 10}, {"SessionEnd", 3}}
	}
	return nil
}

// Stop is the hook after an answer. It is installed only where the files of the folder are
// to be kept: it makes the agent wait after each answer.
var Stop = Hook{"Stop", 10}

// ErrSettings: a settings file is no JSON object of the known form. It is not touched.
var ErrSettings = errors.New("the settings can't be read")

// Install returns the settings with the hooks, each as a command that begins with prefix
// and ends with the event's name. Hooks that are there stay. Everything else keeps its
// bytes. Empty settings are an empty object.
func Install(settings []byte, prefix string, list []Hook) ([]byte, error) {
	for _, h := range list {
		have, err := Installed(settings)
		if err != nil {
			return nil, err
		}
		if slices.Contains(have, h.Event) {
			continue
		}
		if settings, err = add(settings, prefix, h); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// Uninstall returns the settings without the hooks of ledgerctl. Of settings that
// [Install] changed it returns those of before.
func Uninstall(settings []byte) ([]byte, error) {
	for {
		root, err := parse(settings)
		if err != nil {
			return nil, err
		}
		from, to, found := root.ours()
		if !found {
			return settings, nil
		}
		settings = append(bytes.Clone(settings[:from]), settings[to:]...)
	}
}

// Installed returns the events for which the settings have a hook of ledgerctl, sorted.
func Installed(settings []byte) (events []string, err error) {
	root, err := parse(settings)
	if err != nil {
		return nil, err
	}
	hooks := root.member("hooks")
	if hooks == nil {
		return nil, nil
	}
	for _, m := range hooks.members {
		if slices.ContainsFunc(m.value.items, func(v *value) bool { return v.isOurs() }) {
			events = append(events, m.name)
		}
	}
	slices.Sort(events)
	return events, nil
}

// Programs returns the program that the hooks of ledgerctl run, by event; "" where the
// command can't be read. Settings that are not valid have none.
func Programs(settings []byte) map[string]string {
	out := make(map[string]string)
	root, err := parse(settings)
	if err != nil {
		return out
	}
	hooks := root.member("hooks")
	if hooks == nil {
		return out
	}
	for _, m := range hooks.members {
		for _, v := range m.value.items {
			if c, ok := v.ourCommand(); ok {
				out[m.name] = firstWord(c)
			}
		}
	}
	return out
}

// firstWord returns the first word of a command as Install writes it: plain, or in single
// quotes in which '\” is one.
func firstWord(command string) string {
	quoted, ok := strings.CutPrefix(command, "'")
	if !ok {
		word, _, _ := strings.Cut(command, " ")
		return word
	}
	const quote = `'\''`
	word, _, closed := strings.Cut(strings.ReplaceAll(quoted, quote, "\x00"), "'")
	if !closed {
		return ""
	}
	return strings.ReplaceAll(word, "\x00", "'")
}

// value is a JSON value with its place in the text.
type value struct {
	text       []byte // of the whole file
	begin, end int
	members    []member // of an object
	items      []*value // of an array
}

type member struct {
	name  string
	begin int // of the name
	value *value
}

func (v *value) kind() byte { return v.text[v.begin] }

func (v *value) member(name string) *value {
	for _, m := range v.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// isOurs reports whether a group of hooks is one that Install added: its only command is
// ledgerctl hook.
func (v *value) isOurs() bool {
	_, ok := v.ourCommand()
	return ok
}

// ourCommand returns the command of a group that Install added.
func (v *value) ourCommand() (command string, ok bool) {
	var group struct {
		Hooks []struct {
			Command string `json:"command"`
		} `json:"hooks"`
	}
	if json.Unmarshal(v.text[v.begin:v.end], &group) != nil || len(group.Hooks) != 1 {
		return "", false
	}
	c := group.Hooks[0].Command
	return c, strings.Contains(c, "ledgerctl") && strings.Contains(c, " hook ") && strings.Contains(c, " --from ")
}

// parse reads settings. They are an object, whose hooks, if it has any, are an object of
// arrays.
func parse(settings []byte) (*value, error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		settings = []byte("{}")
	}
	d := jsontext.NewDecoder(bytes.NewReader(settings))
	p := parser{d, settings}
	v, err := p.value()
	if err == nil {
		if rest := bytes.TrimSpace(settings[v.end:]); len(rest) > 0 {
			err = errors.New("something follows the object")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if v.kind() != '{' {
		return nil, fmt.Errorf("%w: they are no object", ErrSettings)
	}
	if h := v.member("hooks"); h != nil {
		if h.kind() != '{' {
			return nil, fmt.Errorf("%w: hooks is no object", ErrSettings)
		}
		for _, m := range h.members {
			if m.value.kind() != '[' {
				return nil, fmt.Errorf("%w: the hooks of %s are no list", ErrSettings, m.name)
			}
		}
	}
	return v, nil
}

type parser struct {
	d    *jsontext.Decoder
	text []byte
}

// next returns where the next token begins.
func (p *parser) next() int {
	i := int(p.d.InputOffset())
	for i < len(p.text) && strings.IndexByte(" \t\r\n,:", p.text[i]) >= 0 {
		i++
	}
	return i
}

func (p *parser) value() (*value, error) {
	kind := p.d.PeekKind()
	v := &value{text: p.text, begin: p.next()}
	switch kind {
	case '{', '[':
		if _, err := p.d.ReadToken(); err != nil {
			return nil, err
		}
		for {
			if k := p.d.PeekKind(); k == '}' || k == ']' {
				break
			}
			var m member
			if kind == '{' {
				m.begin = p.next()
				name, err := p.d.ReadToken()
				if err != nil {
					return nil, err
				}
				m.name = name.String()
			}
			x, err := p.value()
			if err != nil {
				return nil, err
			}
			if kind == '[' {
				v.items = append(v.items, x)
				continue
			}
			m.value = x
			v.members = append(v.members, m)
		}
		if _, err := p.d.ReadToken(); err != nil {
			return nil, err
		}
	default:
		if err := p.d.SkipValue(); err != nil {
			return nil, err
		}
	}
	v.end = int(p.d.InputOffset())
	return v, nil
}

// spans returns where the children of an object or array begin and end.
func (v *value) spans() (out [][2]int) {
	for _, m := range v.members {
		out = append(out, [2]int{m.begin, m.value.end})
	}
	for _, x := range v.items {
		out = append(out, [2]int{x.begin, x.end})
	}
	return out
}

// insert adds a child at the end of v, at a depth of the file.
func (v *value) insert(text string, depth int) []byte {
	unit := indent(v.text)
	var at int
	before, after := "", ""
	line := "\n" + strings.Repeat(unit, depth+1)
	if unit == "" {
		line = ""
	}
	if s := v.spans(); len(s) > 0 {
		at, before = s[len(s)-1][1], ","
	} else {
		at = v.begin + 1
		if line != "" && len(bytes.TrimSpace(v.text[at:v.end-1])) == 0 && !bytes.Contains(v.text[at:v.end-1], []byte("\n")) {
			after = "\n" + strings.Repeat(unit, depth)
		}
	}
	return slices.Concat(v.text[:at], []byte(before+line+text+after), v.text[at:])
}

// indent returns one step of the file's indentation, "" for a file on one line.
func indent(text []byte) string {
	_, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || len(bytes.TrimSpace(rest)) == 0 && len(bytes.TrimSpace(text)) > 2 {
		return ""
	}
	n := 0
	for n < len(rest) && (rest[n] == ' ' || rest[n] == '\t') {
		n++
	}
	if n == 0 {
		return "  "
	}
	return string(rest[:n])
}

// add adds one hook.
func add(settings []byte, prefix string, h Hook) ([]byte, error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		settings = []byte("{}\n")
	}
	group, err := json.Marshal(map[string]any{"hooks": []any{map[string]any{"type": "command", "command": prefix + " " + h.Event, "timeout": h.Timeout}}}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	root, err := parse(settings)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(h.Event)
	if err != nil {
		return nil, err
	}
	hooks := root.member("hooks")
	switch {
	case hooks == nil:
		return root.insert(`"hooks": {`+string(name)+": ["+string(group)+"]}", 0), nil
	case hooks.member(h.Event) == nil:
		return hooks.insert(string(name)+": ["+string(group)+"]", 1), nil
	}
	return hooks.member(h.Event).insert(string(group), 2), nil
}

// ours returns the text to cut for one hook of ledgerctl: the group, or what holds nothing
// but it.
func (v *value) ours() (from, to int, found bool) {
	hooks := v.member("hooks")
	if hooks == nil {
		return 0, 0, false
	}
	for i, m := range hooks.members {
		for j, group := range m.value.items {
			if !group.isOurs() {
				continue
			}
			switch {
			case len(m.value.items) > 1:
				from, to = m.value.cut(j)
			case len(hooks.members) > 1:
				from, to = hooks.cut(i)
			default:
				from, to = v.cut(slices.IndexFunc(v.members, func(m member) bool { return m.name == "hooks" }))
			}
			return from, to, true
		}
	}
	return 0, 0, false
}

// cut returns the text of child i, with the comma and the space before it; of the first
// child, with those after it.
func (v *value) cut(i int) (from, to int) {
	s := v.spans()
	switch {
	case i > 0:
		return s[i-1][1], s[i][1]
	case len(s) > 1:
		return s[0][0], s[1][0]
	}
	return v.begin + 1, v.end - 1
}
