package natsapi

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

func apiPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// shape returns what a schema says of an object: its members, and which must be there.
func shape(t *testing.T, v any, request bool) (has, required []string) {
	t.Helper()
	text, err := schemaOf(v, request)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Properties map[string]turns.Raw `json:"properties"`
		Required   []string             `json:"required"`
	}
	for _, member := range []struct {
		name string
		into any
	}{{"properties", &doc.Properties}, {"required", &doc.Required}} {
		var whole map[string]turns.Raw
		if err := turns.DecodeJSON([]byte(text), &whole); err != nil {
			t.Fatal(err)
		}
		if raw, ok := whole[member.name]; ok {
			if err := turns.DecodeJSON(raw, member.into); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range doc.Properties {
		has = append(has, name)
	}
	return has, doc.Required
}

// The table of verbs has a line for each verb, in the order of the contract. A
// line names members that the schemas have, and all that a request must have.
func TestTableOfVerbsAgreesWithTheSchemas(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z]+)(\\.<s>)?` \\| `(\\{[^`]*\\})` → (?:`(\\{[^`]*\\})`|[a-z]+) \\| [^|]+ \\|$")
	rows := row.FindAllStringSubmatch(apiPage(t), -1)
	var listed, want []string
	for _, r := range rows {
		listed = append(listed, r[1]+r[2])
	}
	for _, v := range verbs {
		name := v.name
		if v.session {
			name += ".<s>"
		}
		want = append(want, name)
	}
	if !slices.Equal(listed, want) {
		t.Fatalf("the table lists\n%q\nthe daemon serves\n%q", listed, want)
	}
	for i, r := range rows {
		has, required := shape(t, verbs[i].request, true)
		named := members(r[3])
		for _, m := range named {
			if !slices.Contains(has, m) {
				t.Errorf("%s: a request has no %s", r[1], m)
			}
		}
		for _, m := range required {
			if !slices.Contains(named, m) {
				t.Errorf("%s: a request must have %s", r[1], m)
			}
			if strings.Contains(r[3], m+"?") {
				t.Errorf("%s: %s can't be left out", r[1], m)
			}
		}
		if !strings.Contains(r[3], "…") {
			for _, m := range has {
				if !slices.Contains(named, m) && !slices.Contains([]string{"id", "min_position", "stale_ok", "full", "limit"}, m) {
					t.Errorf("%s: a request can have %s too", r[1], m)
				}
			}
		}
		has, _ = shape(t, verbs[i].reply, false)
		for _, m := range members(r[4]) {
			if !slices.Contains(has, m) {
				t.Errorf("%s: a reply has no %s", r[1], m)
			}
		}
	}
}

// The description of a verb that reads names how fresh its answer is to be.
func TestDescriptionOfAReadNamesItsFreshness(t *testing.T) {
	page := apiPage(t)
	for _, v := range verbs {
		has, _ := shape(t, v.request, true)
		if !slices.Contains(has, "min_position") {
			continue
		}
		said := regexp.MustCompile(`\*\*` + regexp.QuoteMeta(v.name) + `(?:\.\\<s\\>)?\*\* ` + "`(\\{[^`]*\\})`").FindStringSubmatch(page)
		if said == nil || !strings.Contains(said[1], "min_position?, stale_ok?") {
			t.Errorf("%s: %q does not name min_position and stale_ok", v.name, said)
		}
	}
}

// The table of errors has each code once, with its status.
func TestTableOfErrorsHasEveryCode(t *testing.T) {
	codes := []api.Code{api.Malformed, api.Unsupported, api.Denied, api.NotFound, api.Conflict, api.IDReused, api.Closed, api.Erased, api.TooLarge,
		api.Unprocessable, api.Nothing, api.Busy, api.Unavailable, api.Indeterminate, api.Corrupt, api.Internal}
	_, section, _ := strings.Cut(apiPage(t), "\n## Errors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []api.Code
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\d+) \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(section, -1) {
		code := api.Code(m[1])
		listed = append(listed, code)
		if status := strconv.Itoa((&api.Error{Code: code}).Status()); status != m[2] {
			t.Errorf("%s is listed with %s, its status is %s", code, m[2], status)
		}
	}
	if !slices.Equal(listed, codes) {
		t.Errorf("listed are %v, want %v", listed, codes)
	}
}

// membersIn returns the names of the members in a schema, at any depth. What a message of a model
// holds is described by FORMAT.
func membersIn(t *testing.T, schema turns.Raw, to map[string]bool) {
	t.Helper()
	switch schema.Kind() {
	case '{':
		var m map[string]turns.Raw
		if err := turns.DecodeJSON(schema, &m); err != nil {
			t.Fatal(err)
		}
		for name, v := range m {
			if name == "properties" && v.Kind() == '{' {
				var own map[string]turns.Raw
				if err := turns.DecodeJSON(v, &own); err != nil {
					t.Fatal(err)
				}
				for n, inner := range own {
					to[n] = true
					membersIn(t, inner, to)
				}
				continue
			}
			membersIn(t, v, to)
		}
	case '[':
		var list []turns.Raw
		if err := turns.DecodeJSON(schema, &list); err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			membersIn(t, v, to)
		}
	}
}

// Each member that a reply can have, at any depth, stands on the page as code.
func TestThePageNamesEveryMemberOfTheReplies(t *testing.T) {
	page := apiPage(t)
	var code strings.Builder
	for _, c := range regexp.MustCompile("(?s)```.*?```|`[^`]*`").FindAllString(page, -1) {
		code.WriteString(c + "\n")
	}
	words := make(map[string]bool)
	for _, w := range regexp.MustCompile(`[a-z][a-z0-9_]*`).FindAllString(code.String(), -1) {
		words[w] = true
	}
	missing := make(map[string][]string)
	for _, v := range verbs {
		if !strings.Contains(page, "\n| `"+v.name) {
			continue // the table of verbs has to get its row first, see above
		}
		text, err := schemaOf(v.reply, false)
		if err != nil {
			t.Fatal(err)
		}
		has := make(map[string]bool)
		membersIn(t, turns.Raw(text), has)
		for name := range has {
			if !words[name] {
				missing[name] = append(missing[name], v.name)
			}
		}
	}
	for name, of := range missing {
		t.Errorf("no word of %s, which replies of %s have", name, strings.Join(of, ", "))
	}
}
