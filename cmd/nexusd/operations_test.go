package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"nexus/cmd/internal/daemon/config"
	asked "nexus/cmd/internal/provider"
	"nexus/ledger/api"
	"nexus/turns"
)

// operations returns the rows of a section of a page for operators: their cells.
func operations(t *testing.T, page, section string) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the page has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| ") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) < 2 {
		t.Fatalf("section %s has no table", section)
	}
	return rows[1:]
}

// The page for operators names every setting, and no other, by its flag, its
// variable and its name in the file.
func TestOperationsPageNamesEverySetting(t *testing.T) {
	var want [][]string
	for f := range reflect.TypeFor[config.Config]().Fields() {
		file, env := f.Tag.Get("toml"), f.Tag.Get("env")
		row := []string{"none", "none", "none"}
		if env != "-" {
			row[1] = "NEXUS_" + env
		}
		if file != "-" {
			row[2] = file
			switch f.Type.Kind() {
			case reflect.Slice:
				row[2] = "[[" + file + "]]"
			case reflect.Struct:
				row[2] = "[" + file + "]"
			}
		}
		if name := "--" + strings.ReplaceAll(file, "_", "-"); strings.Contains(usage, name+" ") {
			row[0] = name
		}
		if file != "-" || env != "-" {
			want = append(want, row)
		}
	}
	for _, row := range want {
		if table := row[2]; strings.HasPrefix(table, "[") && !strings.Contains(usage, table) {
			t.Errorf("the help of nexusd does not name %s", table)
		}
	}
	var got [][]string
	page := make(map[string]string)
	for _, row := range operations(t, "OPERATIONS.md", "Settings") {
		got = append(got, row[:3])
		page[row[2]] = row[4]
	}
	less := func(a, b []string) int { return slices.Compare(a, b) }
	slices.SortFunc(got, less)
	slices.SortFunc(want, less)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the page has\n%q\nthe configuration\n%q", got, want)
	}
	for table, row := range map[string]reflect.Type{"[[model]]": reflect.TypeFor[config.ModelRow](),
		"[[user]]": reflect.TypeFor[config.UserRow](), "[[token]]": reflect.TypeFor[config.TokenRow](), "[[agent]]": reflect.TypeFor[config.AgentRow](), "[watch]": reflect.TypeFor[config.WatchTable](), "[checkpoint]": reflect.TypeFor[config.CheckpointTable](),
		"[[provider]]": reflect.TypeFor[asked.Row]()} {
		for f := range row.Fields() {
			if name := f.Tag.Get("toml"); name != "-" && !strings.Contains(page[table], "`"+name+"`") {
				t.Errorf("%s: the page does not name %s", table, name)
			}
		}
	}
}

// The page names every metric that the code has, and no other; what a running
// daemon exports is among them.
func TestOperationsPageNamesEveryMetric(t *testing.T) {
	var page, code []string
	for _, row := range operations(t, "TEAM.md", "Metrics") {
		page = append(page, row[0])
	}
	literal := regexp.MustCompile(`(?:Name:\s*|NewDesc\()"(nexus_[a-z_]+)"`)
	walk(t, func(path string, production bool) {
		if !production || !strings.HasPrefix(filepath.ToSlash(path), "cmd/") {
			return
		}
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllSubmatch(b, -1) {
			code = append(code, string(m[1]))
		}
	})
	slices.Sort(page)
	slices.Sort(code)
	if !slices.Equal(page, code) {
		t.Errorf("the page has\n%v\nthe code\n%v", page, code)
	}
	for _, name := range exported(t) {
		if !slices.Contains(page, name) {
			t.Errorf("/metrics has %s, the page has not", name)
		}
	}
}

// exported returns the names of the metrics of a daemon that stored a turn and
// refused a request.
func exported(t *testing.T) (names []string) {
	t.Helper()
	ctx := t.Context()
	d, c := startDaemon(t, config.Config{HTTP: "127.0.0.1:0"})
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "hello")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Session(ctx, api.NewID()); err == nil {
		t.Fatal("a session that nobody made is there")
	}
	r, err := http.Get(d.HTTPURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if !slices.Contains(names, "nexus_errors_total") {
		t.Fatalf("/metrics has only %v", names)
	}
	return names
}

// The help fits a terminal of 80 cells.
func TestHelpFitsATerminal(t *testing.T) {
	for line := range strings.Lines(usage + repairUsage + restoreUsage + tokenUsage + userUsage) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d cells: %s", n, line)
		}
	}
}
