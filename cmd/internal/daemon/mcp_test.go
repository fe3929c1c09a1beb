package daemon

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/turns"
)

// post sends the body of a request to /mcp, and returns the status and the answer.
func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

func callOf(id int, tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

var statusCall = callOf(1, "status", `{}`)

func mcpConfig(t *testing.T, tokens ...config.TokenRow) (config.Config, *lockedBuffer) {
	log := new(lockedBuffer)
	return config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxStore: 1 << 30, Token: tokens, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, log
}

func token(t *testing.T, name, agent, scope string) (string, config.TokenRow) {
	t.Helper()
	secret, row, err := config.NewToken(name, "", agent, scope)
	if err != nil {
		t.Fatal(err)
	}
	return secret, row
}

// A token names who calls the tools, and what they may do.
func TestATokenNamesWhoCallsTheTools(t *testing.T) {
	writer, w := token(t, "w", "", "write")
	reader, r := token(t, "r", "", "read")
	other, o := token(t, "o", "other", "write")
	operator, p := token(t, "p", "_", "admin")
	c, log := mcpConfig(t, w, r, o, p)
	d, client := startWith(t, c)
	s, err := client.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := client.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{turns.TextMessage(turns.User, "zebra crossing")}})
	if err != nil {
		t.Fatal(err)
	}
	expand := callOf(1, "expand", fmt.Sprintf(`{"turn":"%s/%s"}`, s.ID, a.ID))
	remember := callOf(2, "remember", `{"text":"zebra memory"}`)
	url := d.HTTPURL()
	for _, tc := range []struct {
		name, secret, body string
		status             int
		want               string
	}{
		{"reads", writer, expand, 200, "zebra crossing"},
		{"writes", writer, remember, 200, "is stored"},
		{"a reader reads", reader, expand, 200, "zebra crossing"},
		{"a reader writes", reader, remember, 200, `unknown tool`},
		{"another agent", other, expand, 200, "not_found: "},
		{"the operator", operator, expand, 200, "zebra crossing"},
		{"the operator creates nothing", operator, remember, 200, `unknown tool`},
		{"nobody", "", statusCall, 401, "token"},
		{"a wrong token", writer[:len(writer)-1] + "!", statusCall, 401, "token"},
	} {
		var header []string
		if tc.secret != "" {
			header = []string{"Authorization", "Bearer " + tc.secret}
		}
		code, body := post(t, url, tc.body, header...)
		if code != tc.status || !strings.Contains(body, tc.want) || strings.Contains(body, writer) {
			t.Errorf("%s: %d %.400s", tc.name, code, body)
		}
	}
	for _, secret := range []string{"zebra", writer, reader, other, operator} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, log)
		}
	}
}

// A page of another site can't call the tools of this machine: neither under a name that
// resolves to it, nor by a request of a browser.
func TestPagesOfOtherSitesCallNoTool(t *testing.T) {
	c, _ := mcpConfig(t)
	d, _ := startWith(t, c)
	for _, tc := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"Origin", d.HTTPURL()}, 200},
		{[]string{"Host", "evil.example"}, 421},
		{[]string{"Host", "evil.example", "Origin", "http://evil.example"}, 421},
		{[]string{"Origin", "http://evil.example"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Content-Type", "text/plain"}, 415},
	} {
		if code, body := post(t, d.HTTPURL(), statusCall, tc.header...); code != tc.status {
			t.Errorf("%q: %d %.200s, want %d", tc.header, code, body, tc.status)
		}
	}
	if code := get(t, d.HTTPURL()+"/mcp", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", code)
	}
}

// What is not a call ends in an error that is typed and short, and the next is served.
func TestHostileRequestsToTheToolsAreRefused(t *testing.T) {
	c, log := mcpConfig(t)
	d, _ := startWith(t, c)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tc := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"10 MB of arguments":     {callOf(1, "remember", `{"text":"`+strings.Repeat("x", 10<<20)+`"}`), 413, ""},
		"arguments over a bound": {callOf(1, "search", `{"text":"`+strings.Repeat("x", 200<<10)+`"}`), 200, "too_large: "},
		"deep arguments":         {callOf(1, "search", `{"text":`+nested(900)+`}`), 200, "too_large: "},
		"deeper arguments":       {callOf(1, "search", `{"text":`+nested(100_000)+`}`), 400, ""},
		"a deep message":         {nested(100_000), 400, ""},
		"an unknown tool":        {callOf(1, "no_such_tool", `{}`), 200, "unknown tool"},
		"duplicate members":      {callOf(1, "search", `{"text":"a","text":"b"}`), 200, "malformed: "},
		"another case":           {callOf(1, "search", `{"Text":"a"}`), 200, "malformed: "},
		"a lone surrogate":       {callOf(1, "search", `{"text":"\ud800"}`), 200, "malformed: "},
		"arguments of a list":    {callOf(1, "search", `[]`), 200, "malformed: "},
		"null":                   {callOf(1, "expand", `null`), 200, "malformed: "},
		"no JSON":                {"nonsense", 400, ""},
		"an empty body":          {"", 400, ""},
		"an empty batch":         {"[]", 400, ""},
		"an unknown method":      {`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, 400, "unsupported"},
		"no id":                  {`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"status"}}`, 400, ""},
		"hidden characters":      {callOf(1, "expand", `{"turn":"a\u202eb\nnext: 1@head"}`), 200, "malformed: "},
	} {
		code, body := post(t, d.HTTPURL(), tc.body)
		if code != tc.status || !strings.Contains(body, tc.want) || len(body) > 8<<10 {
			t.Errorf("%s: %d, %d bytes: %.300s", name, code, len(body), body)
		}
	}
	if code, body := post(t, d.HTTPURL(), statusCall); code != 200 || !strings.Contains(body, `"agent":"main"`) {
		t.Errorf("then: %d %s", code, body)
	}
	if strings.Contains(log.String(), "panic") || strings.Contains(log.String(), "xxxx") {
		t.Errorf("the log:\n%.2000s", log)
	}
}

// A thousand calls in one request are all answered: they wait for each other.
func TestAThousandCallsInOneRequestAreAnswered(t *testing.T) {
	c, _ := mcpConfig(t)
	d, _ := startWith(t, c)
	var batch []string
	for i := range 1000 {
		batch = append(batch, callOf(i+1, "expand", `{"turn":"x"}`))
	}
	code, body := post(t, d.HTTPURL(), "["+strings.Join(batch, ",")+"]")
	if n := strings.Count(body, "malformed: "); code != 200 || n != 1000 {
		t.Errorf("a batch: %d, %d answers: %.300s", code, n, body)
	}
}

// The tools are served whatever the users of NATS are, and wherever its server is.
func TestToolsOfEveryDaemon(t *testing.T) {
	c, _ := mcpConfig(t)
	c.Auth = "off"
	d, _ := startWith(t, c)
	if code, body := post(t, d.HTTPURL(), statusCall); code != 200 || !strings.Contains(body, `"agent":"main"`) {
		t.Errorf("auth off: %d %s", code, body)
	}
	external, _ := mcpConfig(t)
	external.Listen, external.MaxStore, external.NATS, external.Replicas, external.Create, external.Plaintext = "", 0, natsServer(t, nil).ClientURL(), 1, true, true
	e, err := Open(t.Context(), external)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if code, body := post(t, e.HTTPURL(), statusCall); code != 200 || !strings.Contains(body, `"agent":"main"`) {
		t.Errorf("an external server: %d %s", code, body)
	}
}

var mcpPackages = flag.String("mcp", "", "a folder with the npm packages @modelcontextprotocol/conformance and @modelcontextprotocol/inspector; needs node 22")

// The scenarios of the official suite that ask for no tool, resource or prompt of the
// suite's own pass, and the official inspector calls a tool of each kind.
func TestOfficialClientsOfTheProtocol(t *testing.T) {
	if *mcpPackages == "" {
		t.Skip("-mcp DIR names the folder of the npm packages")
	}
	c, _ := mcpConfig(t)
	d, _ := startWith(t, c)
	url := d.HTTPURL() + "/mcp"
	node := func(want, script string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(*mcpPackages, "node_modules", "@modelcontextprotocol", script)}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s %v: %v\n%.2000s", script, args, err, out)
		}
	}
	for scenario, checks := range map[string]int{"server-initialize": 1, "ping": 1, "tools-list": 1, "dns-rebinding-protection": 2, "logging-set-level": 1, "resources-list": 1, "prompts-list": 1} {
		node(fmt.Sprintf("Passed: %d/%d, 0 failed, 0 warnings", checks, checks), "conformance/dist/index.js", "server", "--url", url, "--scenario", scenario)
	}
	inspect := func(want string, args ...string) {
		t.Helper()
		node(want, "inspector/cli/build/cli.js", append([]string{"--cli", url, "--transport", "http", "--method"}, args...)...)
	}
	for _, name := range []string{"search", "expand", "brief", "remember", "fork", "status"} {
		inspect(fmt.Sprintf(`"name": %q`, name), "tools/list")
	}
	inspect(`"state": "accepted"`, "tools/call", "--tool-name", "remember", "--tool-arg", "text=The kettle is blue.")
	inspect("The kettle is blue.", "tools/call", "--tool-name", "brief")
	inspect(`"isError": true`, "tools/call", "--tool-name", "expand", "--tool-arg", "turn=x")
}
