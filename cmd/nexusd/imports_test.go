package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// allowed says, for each package of the module, which others of it production
// code may import. A package that is not listed may import none.
var allowed = map[string][]string{
	"turns":                       {},
	"turns/seal":                  {"turns"},
	"turns/secrets":               {},
	"turns/tokens":                {"turns"},
	"turns/interchange":           {"turns", "turns/tokens"},
	"turns/interchange/strict":    {"turns"},
	"lineage":                     {"turns"},
	"ledger":                      {"turns", "lineage"},
	"ledger/memlog":               {"turns", "ledger"},
	"ledger/ledgertest":           {"turns", "ledger"},
	"ledger/jetstream/mark":       {"turns"},
	"ledger/jetstream/groupsync":  {"ledger", "ledger/jetstream/blocks", "ledger/jetstream/mark"},
	"ledger/jetstream":            {"turns", "ledger", "ledger/jetstream/blocks", "ledger/jetstream/groupsync", "ledger/jetstream/mark"},
	"ledger/jetstream/embed":      {},
	"ledger/jetstream/blocks":     {"ledger"},
	"ledger/jetstream/disk":       {"turns", "ledger", "ledger/jetstream", "ledger/jetstream/blocks", "ledger/jetstream/embed", "ledger/jetstream/mark"},
	"ledger/jetstream/collect":    {"turns", "ledger", "ledger/jetstream", "ledger/jetstream/blocks", "ledger/jetstream/disk", "ledger/jetstream/embed", "ledger/jetstream/mark"},
	"ledger/jetstream/backup":     {"ledger/jetstream/disk", "turns", "ledger", "ledger/api", "ledger/jetstream", "ledger/jetstream/blocks", "ledger/jetstream/mark"},
	"ledger/api":                  {"turns", "ledger"},
	"ledger/api/mcp":              {"turns", "turns/secrets", "ledger/api"},
	"fork":                        {"turns", "lineage"},
	"compactor/compactortest":     {"turns", "turns/tokens", "lineage", "ledger", "compactor/summary", "compactor/policy", "compactor/view"},
	"compactor/overflow":          {},
	"compactor/summary":           {"turns", "turns/tokens"},
	"compactor/policy":            {"turns", "turns/tokens", "compactor/summary"},
	"compactor/evidence":          {"turns", "compactor/summary"},
	"compactor/quote":             {"turns", "turns/tokens", "compactor/summary"},
	"compactor/view":              {"turns", "turns/tokens", "lineage", "compactor/summary", "compactor/policy", "compactor/quote"},
	"compactor/plan":              {"turns", "turns/tokens", "lineage", "compactor/summary", "compactor/policy", "compactor/quote", "compactor/view"},
	"compactor":                   {"turns", "turns/tokens", "lineage", "compactor/summary", "compactor/policy", "compactor/view", "compactor/plan"},
	"compactor/extractive":        {"turns", "turns/tokens", "compactor/summary"},
	"compactor/llm":               {"turns", "turns/tokens", "compactor/summary", "compactor/overflow"},
	"compactor/compare":           {"turns", "turns/tokens", "compactor", "compactor/summary", "compactor/policy", "compactor/view", "compactor/plan"},
	"projections":                 {"turns", "ledger", "lineage"},
	"projections/search":          {"turns", "ledger"},
	"cmd/nexusd/build":            {},
	"cmd/nexusd":                  {"cmd/nexusd/build", "cmd/nexusd/daemon/provider", "turns", "ledger/api", "compactor", "compactor/summary", "compactor/llm", "ledger/jetstream/disk", "cmd/nexusd/daemon", "cmd/ledgerctl/agents", "cmd/ledgerctl/watch"},
	"cmd/nexusd/daemon/web":       {"turns"},
	"cmd/nexusd/daemon/provider":  {"turns", "turns/interchange", "compactor/overflow"},
	"cmd/nexusd/daemon/responses": {"turns", "turns/seal", "turns/tokens", "ledger/api", "cmd/nexusd/daemon/provider", "cmd/nexusd/daemon/responses/socket", "cmd/nexusd/daemon/responses/window", "cmd/nexusd/daemon/web"},
	"cmd/nexusd/faulttest":        {"turns"},
	"cmd/nexusd/daemon/natsapi":   {"turns", "ledger/api", "cmd/nexusd/daemon/engine", "cmd/nexusd/daemon/engine/reader", "cmd/nexusd/daemon/engine/writer"},
	room("page"):                  []string{"ledger", "ledger/api", "turns"},
	room("cache"):                 {},
	room("content"):               slices.Concat([]string{"ledger", "ledger/api", "lineage", "turns", "turns/seal", "turns/tokens"}, rooms("page", "cache")),
	room("metrics"):               slices.Concat([]string{"projections", "turns"}, rooms("cache")),
	room("reader"):                slices.Concat([]string{"compactor/policy", "compactor/view", "ledger", "ledger/api", "lineage", "projections", "turns", "turns/seal", "turns/tokens"}, rooms("page", "cache", "content")),
	room("paths"):                 slices.Concat([]string{"compactor", "compactor/plan", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("page", "cache", "content", "reader")),
	room("writer"):                slices.Concat([]string{"ledger", "ledger/api", "lineage", "turns", "turns/seal"}, rooms("page", "content", "metrics", "reader", "paths")),
	room("events"):                slices.Concat([]string{"ledger", "ledger/api", "turns"}, rooms("page", "content", "reader", "writer")),
	room("resets"):                slices.Concat([]string{"ledger"}, rooms("reader", "sessions")),
	room("extraction"):            slices.Concat([]string{"compactor", "compactor/policy", "compactor/summary", "ledger", "ledger/api", "turns"}, rooms("paths", "reader", "writer", "events", "memories", "sessions")),
	room("episodes"):              slices.Concat([]string{"compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("paths", "reader", "memories")),
	room("policies"):              slices.Concat([]string{"compactor/policy", "ledger", "ledger/api", "turns"}, rooms("page", "content", "reader", "writer")),
	room("memories"):              slices.Concat([]string{"ledger", "ledger/api", "lineage", "projections", "turns", "turns/seal"}, rooms("page", "cache", "content", "reader", "writer")),
	room("compactions"):           slices.Concat([]string{"compactor", "compactor/plan", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("page", "cache", "content", "reader", "paths", "writer", "policies", "memories")),
	room("sessions"):              slices.Concat([]string{"compactor/plan", "compactor/policy", "compactor/view", "ledger", "ledger/api", "lineage", "projections", "turns", "turns/seal", "turns/tokens"}, rooms("page", "content", "reader", "paths", "writer", "policies", "compactions")),
	room("forks"):                 slices.Concat([]string{"compactor/plan", "compactor/policy", "fork", "ledger", "ledger/api", "lineage", "turns", "turns/tokens"}, rooms("content", "reader", "writer", "compactions", "sessions")),
	room("covered"):               slices.Concat([]string{"compactor/evidence", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "projections", "projections/search", "turns"}, rooms("page", "content", "reader", "paths", "search")),
	room("contexts"):              slices.Concat([]string{"compactor", "compactor/overflow", "compactor/plan", "compactor/policy", "compactor/summary", "compactor/view", "ledger", "ledger/api", "lineage", "turns", "turns/interchange", "turns/tokens"}, rooms("page", "cache", "content", "reader", "paths", "writer", "memories", "compactions", "covered")),
	room("history"):               slices.Concat([]string{"compactor/summary", "ledger", "ledger/api", "lineage", "projections", "turns", "turns/secrets"}, rooms("page", "content", "reader")),
	room("transfer"):              slices.Concat([]string{"compactor/policy", "compactor/view", "ledger", "ledger/api", "turns", "turns/seal"}, rooms("page", "cache", "content", "reader", "paths", "writer", "policies", "sessions")),
	room("audit"):                 slices.Concat([]string{"ledger", "ledger/api", "lineage", "projections", "turns", "turns/seal"}, rooms("page", "cache", "content", "reader", "paths")),
	room("backup"):                slices.Concat([]string{"ledger/api", "turns", "turns/seal"}, rooms("page", "content", "reader")),
	room("archive"):               slices.Concat([]string{"compactor/policy", "ledger", "ledger/api", "lineage", "projections", "turns"}, rooms("content", "reader", "transfer", "memories")),
	"cmd/nexusd/daemon/files":     slices.Concat([]string{"ledger", "ledger/api", "lineage", "turns"}, rooms("archive", "memories", "reader")),
	"cmd/nexusd/daemon/engine":    slices.Concat([]string{"compactor", "ledger", "ledger/api", "projections", "projections/search", "turns/tokens"}, rooms("page", "cache", "content", "metrics", "reader", "paths", "writer", "policies", "compactions", "sessions", "forks", "covered", "contexts", "history", "transfer", "audit", "backup", "archive", "events", "memories", "resets", "extraction", "episodes", "search")),
	room("enginetest"):            slices.Concat([]string{"compactor", "compactor/summary", "ledger/api", "ledger/memlog", "projections", "projections/search", "turns", "turns/seal", "turns/tokens"}, rooms("", "reader")),
	room("search"):                slices.Concat([]string{"compactor/summary", "ledger", "ledger/api", "lineage", "projections", "projections/search", "turns", "turns/seal", "turns/secrets"}, rooms("page", "cache", "content", "reader", "memories")),
	"cmd/nexusd/daemon":           nil, // the wiring: everything
	"docs/examples/go":            {},  // what any client may use
	"cmd/ledgerctl/cost":          {"turns", "turns/tokens", "ledger/api"},
	"cmd/ledgerctl/contextview":   {"cmd/ledgerctl/fault", "cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/turnview", "compactor/policy", "ledger/api", "turns"},
	"cmd/ledgerctl/agents":        {"turns/interchange"},
	"cmd/ledgerctl/handover":      {"turns", "turns/interchange", "cmd/ledgerctl/agents"},
	"cmd/ledgerctl/picker":        {},
	"cmd/ledgerctl/bisect":        {},
	"cmd/ledgerctl/edits":         {"turns"},
	"cmd/ledgerctl/codetree":      {"cmd/ledgerctl/edits", "turns", "turns/secrets", "ledger/api"},
	"cmd/ledgerctl/page":          {"turns", "turns/secrets", "ledger/api", "compactor/summary", "cmd/ledgerctl/prose"},
	"cmd/ledgerctl/transcripts":   {"turns", "turns/interchange", "ledger/api", "ledger/jetstream/backup", "cmd/ledgerctl/handover"},
	"cmd/ledgerctl/watch":         {"cmd/ledgerctl/agents", "turns", "turns/interchange", "ledger/api", "cmd/ledgerctl/transcripts", "cmd/ledgerctl/wholefile"},
	"cmd/ledgerctl/hooks":         {"cmd/ledgerctl/wholefile"},
	"cmd/ledgerctl/pi":            {"turns", "turns/interchange", "ledger/api", "cmd/ledgerctl/wholefile"},
	"cmd/ledgerctl/service":       {"cmd/ledgerctl/wholefile"},
	"cmd/ledgerctl/wholefile":     {},
	"cmd/ledgerctl/fault":         {"cmd/ledgerctl/transcripts", "compactor/policy", "ledger/api", "turns"},
	"cmd/ledgerctl/prose":         {"compactor/summary", "ledger/api", "turns"},
	"cmd/ledgerctl/terminal":      {"cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "turns"},
	"cmd/ledgerctl/connect":       {"cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api"},
	"cmd/ledgerctl/names":         {"cmd/ledgerctl/connect", "cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/plot":          {"cmd/ledgerctl/contextview", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/importreport":  {"cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/transcripts", "turns", "turns/interchange"},
	"cmd/ledgerctl/local":         {"cmd/nexusd/build", "cmd/ledgerctl/connect", "cmd/ledgerctl/terminal", "cmd/nexusd/daemon", "ledger/api", "turns"},
	"cmd/ledgerctl/comparison":    {"cmd/ledgerctl/fault", "cmd/ledgerctl/importreport", "cmd/ledgerctl/local", "cmd/ledgerctl/names", "cmd/ledgerctl/plot", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/transcripts", "compactor", "compactor/compare", "compactor/extractive", "compactor/policy", "ledger/api", "turns", "turns/interchange", "turns/tokens"},
	"cmd/ledgerctl/export":        {"cmd/ledgerctl/fault", "cmd/ledgerctl/page", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/transcripts", "cmd/ledgerctl/wholefile", "ledger/api", "turns", "turns/interchange", "turns/secrets"},
	"cmd/ledgerctl/archive":       {"cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/transcripts", "ledger/api", "turns"},
	"cmd/ledgerctl/audit":         {"cmd/ledgerctl/export", "cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "ledger/jetstream/backup", "turns", "turns/secrets"},
	"cmd/ledgerctl/doctor":        {"cmd/nexusd/build", "cmd/ledgerctl/connect", "cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api"},
	"cmd/ledgerctl/bench":         {"cmd/nexusd/build", "cmd/ledgerctl/connect", "cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/nexusd/daemon", "ledger/api", "ledger/jetstream/embed", "turns"},
	"cmd/ledgerctl/turnview":      {"cmd/ledgerctl/fault", "cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "turns", "turns/secrets"},
	"cmd/ledgerctl/expansion":     {"cmd/ledgerctl/fault", "cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/turnview", "ledger/api", "turns"},
	"cmd/ledgerctl/eventview":     {"cmd/ledgerctl/fault", "cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/sessionview":   {"cmd/ledgerctl/contextview", "cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "compactor/policy", "ledger/api", "turns", "turns/secrets"},
	"cmd/ledgerctl/searchview":    {"cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl/help":          {},
	"cmd/ledgerctl/quickstart":    {"cmd/ledgerctl/audit", "cmd/ledgerctl/contextview", "cmd/ledgerctl/importreport", "cmd/ledgerctl/local", "cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/sessionview", "cmd/ledgerctl/terminal", "cmd/ledgerctl/transcripts", "ledger/api", "turns"},
	"cmd/ledgerctl/textdiff":      {"cmd/ledgerctl/export", "cmd/ledgerctl/names", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "cmd/ledgerctl/turnview", "ledger/api", "turns"},
	"cmd/ledgerctl/costview":      {"cmd/ledgerctl/cost", "cmd/ledgerctl/prose", "cmd/ledgerctl/sessionview", "cmd/ledgerctl/terminal", "ledger/api", "turns", "turns/tokens"},
	"cmd/ledgerctl/memoryview":    {"cmd/ledgerctl/fault", "cmd/ledgerctl/prose", "cmd/ledgerctl/terminal", "ledger/api", "turns"},
	"cmd/ledgerctl": {"cmd/nexusd/build", "compactor/compare", "compactor/extractive", "compactor/policy", "compactor/summary", "compactor", "ledger/api/mcp", "ledger/api", "lineage", "turns/interchange", "turns/tokens", "turns/secrets", "turns", "cmd/ledgerctl/wholefile", "cmd/ledgerctl/page", "cmd/ledgerctl/edits", "cmd/ledgerctl/agents", "cmd/ledgerctl/archive", "cmd/ledgerctl/audit", "cmd/ledgerctl/bench", "cmd/ledgerctl/bisect", "cmd/ledgerctl/codetree", "cmd/ledgerctl/comparison", "cmd/ledgerctl/connect", "cmd/ledgerctl/contextview", "cmd/ledgerctl/cost", "cmd/ledgerctl/costview", "cmd/ledgerctl/doctor", "cmd/ledgerctl/eventview", "cmd/ledgerctl/expansion", "cmd/ledgerctl/export", "cmd/ledgerctl/fault", "cmd/ledgerctl/handover", "cmd/ledgerctl/help", "cmd/ledgerctl/hooks", "cmd/ledgerctl/importreport", "cmd/ledgerctl/memoryview", "cmd/ledgerctl/names", "cmd/ledgerctl/pi", "cmd/ledgerctl/picker", "cmd/ledgerctl/plot", "cmd/ledgerctl/prose", "cmd/ledgerctl/quickstart", "cmd/ledgerctl/searchview", "cmd/ledgerctl/service", "cmd/ledgerctl/sessionview", "cmd/ledgerctl/terminal", "cmd/ledgerctl/textdiff", "cmd/ledgerctl/transcripts", "cmd/ledgerctl/turnview", "cmd/ledgerctl/watch",
		"cmd/nexusd/daemon", "compactor/policy", "ledger/api", "ledger/api/mcp", "ledger/jetstream/backup", "turns", "turns/tokens"},

	"cmd/nexusd/daemon/provider/providertest": {"turns/interchange/strict"},
	"cmd/nexusd/daemon/responses/socket":      {},
	"cmd/nexusd/daemon/responses/window":      {"turns", "turns/seal", "ledger/api"},
}

// room returns the import path of a room of the engine; "" means that of package engine.
func room(name string) string { return strings.TrimSuffix("cmd/nexusd/daemon/engine/"+name, "/") }

// rooms lists the rooms that one may call: each is lower than it.
func rooms(names ...string) (out []string) {
	for _, name := range names {
		out = append(out, room(name))
	}
	return out
}

// only says which packages may import something from outside.
var only = map[string][]string{
	"github.com/cockroachdb/pebble":       {"projections", "cmd/nexusd/daemon/engine/enginetest", "cmd/ledgerctl/bench"},
	"github.com/blevesearch":              {"projections/search"},
	"github.com/fsnotify/fsnotify":        {"cmd/ledgerctl/watch"},
	"github.com/nats-io/nats-server":      {"ledger/jetstream/embed"},
	"github.com/nats-io/nats.go":          {"cmd/ledgerctl/bench", "cmd/ledgerctl/connect", "cmd/ledgerctl/fault", "ledger/jetstream", "ledger/jetstream/embed", "ledger/api", "cmd/nexusd/daemon", "cmd/nexusd/daemon/natsapi", "cmd/ledgerctl", "docs/examples/go"},
	"github.com/prometheus/client_golang": {"cmd/nexusd/daemon", "cmd/nexusd/daemon/engine", "cmd/nexusd/daemon/engine/metrics", "cmd/nexusd/daemon/files"},
	"github.com/modelcontextprotocol":     {"ledger/api/mcp"},
	"github.com/google/jsonschema-go":     {"ledger/api/mcp"},
	"github.com/openai/openai-go":         {"compactor/llm"},
	"github.com/yuin/goldmark":            {"cmd/ledgerctl/page"},
	"github.com/coder/websocket":          {"cmd/nexusd/daemon/responses/socket"},
	"charm.land/bubbletea":                {"cmd/ledgerctl/picker"},
	"github.com/anthropics":               {"compactor/llm"},
	"encoding/json":                       {"docs/examples/go", "ledger/jetstream/embed"}, // repairs what it should refuse: duplicate keys, bad UTF-8; embed reads a CONNECT as the server does
	"math/rand":                           {},
	"net/http":                            {"cmd/nexusd/daemon/responses/socket", "cmd/nexusd/daemon/responses", "cmd/nexusd/daemon", "cmd/nexusd/daemon/web", "cmd/nexusd/daemon/provider", "cmd/nexusd/daemon/provider/providertest", "cmd/ledgerctl/doctor", "compactor/llm", "docs/examples/go", "ledger/api/mcp"},
}

// pure packages touch no network, disk or clock.
var pure = []string{"turns", "turns/tokens", "turns/interchange", "turns/interchange/strict", "lineage", "ledger", "fork",
	"compactor", "compactor/overflow", "compactor/summary", "compactor/policy", "compactor/evidence", "compactor/quote", "compactor/view", "compactor/plan", "compactor/extractive", "compactor/compare"}

func TestImports(t *testing.T) {
	walk(t, func(path string, production bool) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if !production {
			return
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(name, "nexus/"); ok {
				may, known := allowed[pkg]
				if !known {
					t.Errorf("%s: package %s is not in the table of imports", path, pkg)
				} else if may != nil && !slices.Contains(may, own) {
					t.Errorf("%s: %s may not import %s", path, pkg, own)
				}
			}
			for prefix, may := range only {
				if (name == prefix || strings.HasPrefix(name, prefix+"/")) && name != "math/rand/v2" && !slices.Contains(may, pkg) {
					t.Errorf("%s: only %v may import %s", path, may, name)
				}
			}
			if slices.Contains(pure, pkg) && (name == "os" || name == "net" || strings.HasPrefix(name, "net/")) {
				t.Errorf("%s: %s is pure and may not import %s", path, pkg, name)
			}
		}
	})
}

// A pure package takes its clock as an argument.
func TestPurePackagesReadNoClock(t *testing.T) {
	clock := regexp.MustCompile(`(^|[^.\w])time\.(Now|Since|Sleep|After|Tick)\(`)
	walk(t, func(path string, production bool) {
		if !production || !slices.Contains(pure, filepath.ToSlash(filepath.Dir(path))) {
			return
		}
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if m := clock.Find(b); m != nil {
			t.Errorf("%s reads the clock: %s", path, m)
		}
	})
}

func TestTopLevelFolders(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	may := []string{"ledger", "turns", "lineage", "compactor", "fork", "projections", "cmd", "docs", ".ci", ".git", "nexus-data"}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(may, e.Name()) {
			t.Errorf("%s is not one of the top-level folders %v", e.Name(), may)
		}
	}
}

// The tables of docs/ARCHITECTURE.md name every package: the rooms of the engine in rows of
// their own, the others by their path or, in the row of their folder, by their last element.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // by the name that the row begins with
	for l := range strings.SplitSeq(string(b), "\n") {
		if m := regexp.MustCompile("^\\| `([^`]+)` \\|").FindStringSubmatch(l); m != nil {
			rows[m[1]] = l
		}
	}
	engine := room("") + "/"
	for pkg := range allowed {
		if name, isRoom := strings.CutPrefix(pkg, engine); isRoom {
			if rows[name] == "" {
				t.Errorf("room %s of the engine has no row", name)
			}
			continue
		}
		named := false
		for at := pkg; at != "." && !named; at = filepath.ToSlash(filepath.Dir(at)) {
			named = rows[at] != "" && (at == pkg || strings.Contains(rows[at], "`"+filepath.Base(pkg)+"`"))
		}
		if !named {
			t.Errorf("package %s is in no row", pkg)
		}
	}
	for name := range rows {
		_, isPackage := allowed[name]
		if _, isRoom := allowed[engine+name]; !isPackage && !isRoom {
			t.Errorf("row %s names no package", name)
		}
	}
}

// Every relative link of a Markdown page leads to a file.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllSubmatch(b, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), to)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func walk(t *testing.T, visit func(path string, production bool)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".ci" || d.Name() == "testdata" || d.Name() == "nexus-data") {
			return filepath.SkipDir
		}
		if d.IsDir() && path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil { // another module: docs/benchmarks
				return filepath.SkipDir
			}
		}
		if strings.HasSuffix(path, ".go") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			visit(rel, !strings.HasSuffix(path, "_test.go"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
