package natsapi

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"nexus/ledger/api"
	"nexus/turns"
)

// compiled returns a schema as a client compiles it.
func compiled(t *testing.T, v any, request bool) *jsonschema.Schema {
	t.Helper()
	text, err := schemaOf(v, request)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holds returns the schema's complaint about a JSON text; nil if it has none.
func holds(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s.Validate(v)
}

func verbNamed(t *testing.T, name string) verb {
	t.Helper()
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		t.Fatalf("there is no verb %s", name)
	}
	return verbs[i]
}

// The forms that the contract documents, and what the daemon refuses.
func TestSchemaTakesWhatTheDaemonTakes(t *testing.T) {
	const id, message = `"01ARZ3NDEKTSV4RRFFQ69G5FAV"`, `{"role":"user","parts":[{"type":"text","content":"x","ext":{"a":{}}}]}`
	for _, tc := range []struct {
		verb, request string
		ok            bool
	}{
		{"session.create", `{}`, true},
		{"session.create", `{"policy":"balanced"}`, true},
		{"session.create", `{"policy":{"name":"balanced","set":{"keep_tokens":1}}}`, true},
		{"session.create", `{"policy":{"set":{}}}`, false},
		{"session.create", `{"policy":1}`, false},
		{"session.create", `{"system":"You are terse."}`, true},
		{"session.create", `{"system":[{"name":"a","content":"b"},{"content":"c"}]}`, true},
		{"session.create", `{"system":["a"]}`, false},
		{"session.create", `{"tools":[{"name":"ls"}],"limits":{"context_window":1}}`, true},
		{"session.create", `{"lable":"x"}`, false},
		{"session.create", `{"limits":{"window":1}}`, false},
		{"session.create", `{"id":"x"}`, false},
		{"session.move", `{"to":null}`, true},
		{"session.move", `{}`, false},
		{"session.move", `{"note":"back"}`, false},
		{"flush.done", `{"cycle":1,"saved":0}`, true},
		{"flush.done", `{"cycle":1}`, false},
		{"flush.done", `{"saved":1}`, false},
		{"session.move", `{"to":` + id + `}`, true},
		{"turn.append", `{"messages":[` + message + `],"response":null}`, true},
		{"turn.append", `{"messages":[],"response":` + message + `}`, true},
		{"turn.append", `{"messages":[{"role":"user","parts":[{"type":"text","ref":{"digest":"sha256:` + strings.Repeat("0", 64) + `","size":9}}]}]}`, true},
		{"turn.append", `{"messages":[{"role":"robot","parts":[]}]}`, false},
		{"turn.append", `{"messages":[{"role":"user","parts":[],"text":"x"}]}`, false},
		{"turn.append", `{"messages":"hello"}`, false},
		{"turn.append", `{"messages":[],"time":"yesterday"}`, false},
		{"compaction.expand", `{"id":` + id + `,"levels":1}`, true},
		{"compaction.expand", `{"id":` + id + `,"levels":"all"}`, true},
		{"turn.get", `{}`, false},
		{"turn.append", `{"messages":[` + message + `],"usage":{"input_tokens":"9007199254740991","output_tokens":3}}`, true},
		{"context.get", `{"budget":"2000","min_position":7}`, true},
		{"context.get", `{"budget":2000,"min_position":"p7"}`, true},
		{"context.get", `{"budget":"much"}`, false},
		{"context.get", `{"budget":-1}`, false},
		{"audit.consistency", `{"from":"9007199254740993"}`, true},
		{"policy.list", `{}`, true},
	} {
		v := verbNamed(t, tc.verb)
		if err := holds(t, compiled(t, v.request, true), tc.request); (err == nil) != tc.ok {
			t.Errorf("%s %s: taken: %v, want %v (%v)", tc.verb, tc.request, err == nil, tc.ok, err)
		}
	}
}

// A member whose absence would be taken for a decision must be there. A move without "to"
// would move the head to the start.
func TestAForgottenMemberIsMalformed(t *testing.T) {
	for _, tc := range []struct{ verb, request, field string }{
		{"session.move", `{}`, "/to"},
		{"session.move", `null`, "/to"},
		{"session.move", `{"if_head":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`, "/to"},
		{"session.move", `{"unknown":1}`, "/unknown"},
		{"flush.done", `{"cycle":1}`, "/saved"},
		{"flush.done", `{"saved":1}`, "/cycle"},
	} {
		_, err := verbNamed(t, tc.verb).serve(t.Context(), &call{data: []byte(tc.request)})
		var fe *turns.FieldError
		if !errors.As(err, &fe) || fe.Field != tc.field || !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s %s: %v, want malformed %s", tc.verb, tc.request, err, tc.field)
		}
	}
}

// A later version may add members to a reply.
func TestSchemaOfAReplyTakesUnknownMembers(t *testing.T) {
	s := compiled(t, verbNamed(t, "session.import").reply, false)
	if err := holds(t, s, `{"stored":1,"existing":2,"later":{}}`); err != nil {
		t.Error(err)
	}
	m := compiled(t, turns.Message{}, false)
	if err := holds(t, m, `{"role":"user","parts":[{"type":"text","later":1}],"later":1}`); err != nil {
		t.Error(err)
	}
	if holds(t, s, `{"stored":"one","existing":2}`) == nil {
		t.Error("a text is taken where a number stands")
	}
}

// short completes what docs/API.md abbreviates: ids, hashes and long values.
var short = strings.NewReplacer(`sha256:…`, "sha256:"+strings.Repeat("0", 64), "…]", "]", "…}", "}")

var shortID = regexp.MustCompile(`"01[A-Z]{2}…"`)

// example is a block of JSON in docs/API.md.
type example struct {
	verb   string // whose paragraph it belongs to; "" before the first
	values []string
}

func examples(t *testing.T, page string) (all []example) {
	t.Helper()
	verb := ""
	named := regexp.MustCompile(`^\*\*([a-z]+\.[a-z]+)`)
	for block := range strings.SplitSeq(page, "\n```") {
		text, isJSON := strings.CutPrefix(block, "json\n")
		if !isJSON {
			for line := range strings.SplitSeq(block, "\n") {
				if m := named.FindStringSubmatch(line); m != nil {
					verb = m[1]
				}
			}
			continue
		}
		text = shortID.ReplaceAllString(short.Replace(text), `"01ARZ3NDEKTSV4RRFFQ69G5FAV"`)
		x := example{verb: verb}
		for d := jsontext.NewDecoder(strings.NewReader(text)); d.PeekKind() != 0; {
			v, err := d.ReadValue()
			if err != nil {
				t.Fatalf("an example of %s: %v\n%s", verb, err, text)
			}
			x.values = append(x.values, string(v))
		}
		all = append(all, x)
	}
	return all
}

// The paragraph of a verb shows its request and its reply, or only the reply.
func TestExamplesOfTheDocsHoldAgainstTheSchemas(t *testing.T) {
	page, err := os.ReadFile("../../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	all := examples(t, string(page))
	if len(all) < 10 {
		t.Fatalf("only %d examples are found", len(all))
	}
	check := func(what string, s *jsonschema.Schema, x example) {
		if len(x.values) == 0 {
			t.Errorf("%s: an empty example", what)
		}
		for _, v := range x.values {
			if err := holds(t, s, v); err != nil {
				t.Errorf("%s: %s\n%v", what, v, err)
			}
		}
	}
	for i, x := range all {
		switch {
		case x.verb == "" && strings.HasPrefix(x.values[0], `{"error"`):
			check("an error", compiled(t, struct {
				Error api.Error `json:"error"`
			}{}, true), x)
		case x.verb == "":
			check("messages", compiled(t, turns.Message{}, true), x)
		case i+1 < len(all) && all[i+1].verb == x.verb:
			check(x.verb+", request", compiled(t, verbNamed(t, x.verb).request, true), x)
		default:
			check(x.verb+", reply", compiled(t, verbNamed(t, x.verb).reply, false), x)
		}
	}
}

// signature matches the start of a verb's paragraph: **verb** `{…}`, or **verb.\<s\>**.
var signature = regexp.MustCompile("\\*\\*([a-z]+\\.[a-z]+)(?:\\.\\\\<s\\\\>)?\\*\\*\\s+`(\\{[^`]*\\})`")

// The members that docs/API.md names for a request are those that it has. What
// every read takes is described once, under Positions.
func TestRequestsOfTheDocsNameTheMembersOfTheSchemas(t *testing.T) {
	page, err := os.ReadFile("../../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	found := signature.FindAllStringSubmatch(string(page), -1)
	if len(found) < 25 {
		t.Fatalf("only %d verbs are found", len(found))
	}
	everywhere := []string{"min_position", "stale_ok"}
	// Accepted and without an effect; the docs' last section describes them.
	idle := map[string][]string{"context.get": {"inline"}, "context.overflow": {"model"}, "compaction.expand": {"full"}, "compaction.take": {"limit"}}
	for _, m := range found {
		v := verbNamed(t, m[1])
		var doc struct {
			Properties map[string]turns.Raw `json:"properties"`
		}
		text, err := schemaOf(v.request, true)
		if err != nil {
			t.Fatal(err)
		}
		var whole map[string]turns.Raw
		if err := turns.DecodeJSON([]byte(text), &whole); err != nil {
			t.Fatal(err)
		}
		if p, ok := whole["properties"]; ok {
			if err := turns.DecodeJSON(p, &doc.Properties); err != nil {
				t.Fatal(err)
			}
		}
		var has []string
		for name := range doc.Properties {
			if !slices.Contains(everywhere, name) && !slices.Contains(idle[v.name], name) {
				has = append(has, name)
			}
		}
		named := slices.DeleteFunc(members(m[2]), func(s string) bool { return slices.Contains(everywhere, s) })
		slices.Sort(has)
		slices.Sort(named)
		if d := cmp.Diff(has, named); d != "" {
			t.Errorf("%s: the docs (+) name other members than the schema (-):\n%s", v.name, d)
		}
	}
}

// members are the names in {a, b?: type, c: {d}}, without those inside.
func members(s string) (names []string) {
	depth, name := 0, ""
	end := func() {
		name, _, _ = strings.Cut(name, ":")
		if name = strings.Trim(name, "?… \n"); name != "" {
			names = append(names, name)
		}
		name = ""
	}
	for _, c := range s {
		switch {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 1:
			end()
		case depth == 1:
			name += string(c)
		}
	}
	end()
	return names
}

// INFO holds the schemas of all verbs, and is one message.
func TestInfoFitsAMessage(t *testing.T) {
	s, _ := serviceOn(t)
	b, err := turns.EncodeJSON(s.service.Info())
	if err != nil {
		t.Fatal(err)
	}
	if limit := 192 << 10; len(b) > limit {
		t.Errorf("INFO has %d bytes, over %d", len(b), limit)
	}
	t.Logf("INFO has %d bytes", len(b))
}
