package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"nexus/turns"
)

// Kinds lists the dialects, as a row names them.
var Kinds = []string{"openai-chat", "openai-responses", "anthropic"}

// Row is a provider in a configuration: a [[provider]] row.
type Row struct {
	Name string `toml:"name"`
	Kind string `toml:"kind"` // one of Kinds
	// URL is the base, to which the dialect's path is added, as http://127.0.0.1:8000/v1.
	URL string `toml:"url"`
	// KeyEnv names an environment variable with the API key; KeyFile is a file with it on
	// the first line, which nobody but its owner may read. Neither: no key is sent.
	KeyEnv  string `toml:"key_env"`
	KeyFile string `toml:"key_file"`
	// Models is a list of patterns, in which * stands for any characters, or a table of
	// names of clients and of the provider. Exact names go before patterns, and longer
	// patterns before shorter ones.
	Models any `toml:"models"`
	// MaxOutput is the tokens of an answer where a request has no limit and the dialect
	// wants one (anthropic). 0: what the model table has, else 8192.
	MaxOutput uint64 `toml:"max_output"`
	// Headers are sent with each request, as a gateway before the provider wants them.
	Headers map[string]string `toml:"headers"`
}

// route is a pattern of names, and the provider's name for what matches; "": the same.
type route struct{ pattern, upstream string }

// routes are the row's models, in the order in which they are tried.
func (r *Row) routes() (out []route, err error) {
	bad := fmt.Errorf("models: it is a list of patterns, as [\"*\"], or a table of names, as {small = \"qwen3-8b\"}")
	switch v := r.Models.(type) {
	case []any:
		for _, m := range v {
			s, ok := m.(string)
			if !ok || s == "" {
				return nil, bad
			}
			out = append(out, route{pattern: s})
		}
	case []string:
		for _, s := range v {
			out = append(out, route{pattern: s})
		}
	case map[string]any:
		for k, m := range v {
			s, ok := m.(string)
			if !ok || s == "" || k == "" {
				return nil, bad
			}
			out = append(out, route{k, s})
		}
	default:
		return nil, bad
	}
	if len(out) == 0 {
		return nil, bad
	}
	slices.SortStableFunc(out, func(a, b route) int {
		if x, y := strings.Contains(a.pattern, "*"), strings.Contains(b.pattern, "*"); x != y {
			if y {
				return -1
			}
			return 1
		}
		return cmp.Or(len(b.pattern)-len(a.pattern), strings.Compare(a.pattern, b.pattern))
	})
	return out, nil
}

// matches reports whether name is what pattern says: * stands for any characters.
func matches(pattern, name string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, pieces[0])
	if !ok {
		return false
	}
	last := pieces[len(pieces)-1]
	for _, p := range pieces[1 : len(pieces)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return strings.HasSuffix(name, last)
}

// Check lists the faults of rows. Each names the row and its field.
func Check(rows []Row) []error {
	var faults []error
	names := make(map[string]bool)
	for i := range rows {
		r := &rows[i]
		at := fmt.Sprintf("provider: row %d", i+1)
		if r.Name != "" {
			at = fmt.Sprintf("provider %.60q", r.Name)
		}
		bad := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf(at+": "+format, args...))
		}
		switch {
		case !turns.ValidName(r.Name):
			bad("name: %.60q is not a name", r.Name)
		case names[r.Name]:
			bad("name: another row has it")
		}
		names[r.Name] = true
		if !slices.Contains(Kinds, r.Kind) {
			bad("kind: %.60q is none of %s", r.Kind, strings.Join(Kinds, ", "))
		}
		if r.KeyEnv != "" && r.KeyFile != "" {
			bad("key_env, key_file: only one of them")
		}
		if err := checkURL(r.URL, r.KeyEnv != "" || r.KeyFile != ""); err != nil {
			bad("url: %w", err)
		}
		if _, err := r.routes(); err != nil {
			bad("%w", err)
		}
		for k, v := range r.Headers {
			if k == "" || strings.ContainsAny(k+v, "\r\n\x00") || strings.EqualFold(k, "Authorization") || strings.EqualFold(k, "X-Api-Key") {
				bad("headers: %.60q is not a header, or one for a key, which stands in key_env or key_file", k)
			}
		}
	}
	return faults
}

func checkURL(s string, hasKey bool) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return errors.New("it is no address of http or https, as http://127.0.0.1:8000/v1")
	case u.User != nil:
		return errors.New("a password does not stand in it; use key_env or key_file")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it has a query; a path is added to it")
	case u.Scheme == "http" && hasKey && !loopback(u.Hostname()):
		return fmt.Errorf("a key is not sent over http to %s; use https", u.Hostname())
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Options are what rows need beside themselves.
type Options struct {
	Getenv    func(string) string       // of key_env; nil: nothing is set
	MaxOutput func(model string) uint64 // tokens of an answer, by the model table; nil or 0: not known
	Limits    Limits
	Transport http.RoundTripper // nil: the standard one
}

// Set finds the provider of a model. It is safe for concurrent use.
type Set struct{ rows []serving }

type serving struct {
	name   string
	routes []route
	client *client
}

// New makes a set of rows. It reads the keys, and sends nothing. Errors: those of [Check],
// and of keys that are missing or that others can read.
func New(rows []Row, o Options) (*Set, error) {
	if faults := Check(rows); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 32
		t.MaxResponseHeaderBytes = 64 << 10
		o.Transport = t
	}
	// The key and the content are for the configured server only.
	h := &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s := new(Set)
	for i := range rows {
		r := &rows[i]
		key, err := r.key(o.Getenv)
		if err != nil {
			return nil, fmt.Errorf("provider %q: %w", r.Name, err)
		}
		routes, err := r.routes()
		if err != nil {
			return nil, fmt.Errorf("provider %q: %w", r.Name, err)
		}
		c := &client{url: strings.TrimSuffix(r.URL, "/"), key: key, headers: r.Headers, http: h, limits: o.Limits.withDefaults(), now: time.Now, wait: sleep}
		u, _ := url.Parse(r.URL) // checked
		switch r.Kind {
		case "openai-chat":
			newer := new(atomic.Bool)
			newer.Store(u.Hostname() == openAIHost)
			c.dialect = chat{row: r.Name, newer: newer}
		case "openai-responses":
			c.dialect = responses{row: r.Name}
		case "anthropic":
			c.dialect = messages{row: r.Name, maxOutput: r.maxOutput(o.MaxOutput)}
		}
		s.rows = append(s.rows, serving{r.Name, routes, c})
	}
	return s, nil
}

func (r *Row) maxOutput(table func(string) uint64) func(string) uint64 {
	return func(model string) uint64 {
		most := r.MaxOutput
		if most == 0 && table != nil {
			most = table(model)
		}
		return cmp.Or(most, 8192)
	}
}

// maxKey bounds a key file, in bytes.
const maxKey = 64 << 10

// key reads the row's key.
func (r *Row) key(getenv func(string) string) (string, error) {
	key, field := "", "key_env"
	switch {
	case r.KeyEnv != "":
		if getenv != nil {
			key = strings.TrimSpace(getenv(r.KeyEnv))
		}
		if key == "" {
			return "", fmt.Errorf("key_env: %s is not set", r.KeyEnv)
		}
	case r.KeyFile != "":
		field = "key_file"
		info, err := os.Stat(r.KeyFile)
		switch {
		case err != nil:
			return "", fmt.Errorf("key_file: %w", err)
		case !info.Mode().IsRegular() || info.Size() > maxKey:
			return "", fmt.Errorf("key_file: %s is not a file with a key", r.KeyFile)
		case info.Mode().Perm()&0o077 != 0:
			return "", fmt.Errorf("key_file: others can read %s; chmod 600 it", r.KeyFile)
		}
		b, err := os.ReadFile(r.KeyFile)
		if err != nil {
			return "", fmt.Errorf("key_file: %w", err)
		}
		line, _, _ := strings.Cut(string(b), "\n")
		if key = strings.TrimSpace(line); key == "" {
			return "", fmt.Errorf("key_file: the first line of %s is empty", r.KeyFile)
		}
	}
	for _, c := range []byte(key) {
		if c <= ' ' || c >= 0x7f {
			return "", fmt.Errorf("%s: the key has characters that no header takes", field)
		}
	}
	return key, nil
}

// openAIHost is OpenAI's own server.
const openAIHost = "api.openai.com"

// Thinks reports whether models of a client are known to think before they answer, within the bound
// of their answers: those of OpenAI's own server.
func Thinks(c Client) bool {
	own, ok := c.(*client)
	if !ok {
		return false
	}
	u, err := url.Parse(own.url)
	return err == nil && u.Hostname() == openAIHost
}

// In returns who answers for a model of one row, and its name there. ok is false if there is no
// such row, or it does not name the model.
func (s *Set) In(row, model string) (c Client, upstream string, ok bool) {
	for i := range s.rows {
		if s.rows[i].name != row {
			continue
		}
		for _, t := range s.rows[i].routes {
			if model != "" && matches(t.pattern, model) {
				return s.rows[i].client, cmp.Or(t.upstream, model), true
			}
		}
	}
	return nil, "", false
}

// For returns who answers for a model, and its name there. Errors: an [*Error] with the code
// model_not_found.
func (s *Set) For(model string) (Client, string, error) {
	for i := range s.rows {
		for _, t := range s.rows[i].routes {
			if model != "" && matches(t.pattern, model) {
				return s.rows[i].client, cmp.Or(t.upstream, model), nil
			}
		}
	}
	return nil, "", &Error{Status: http.StatusNotFound, Code: "model_not_found", Param: "model", Message: fmt.Sprintf("No provider of this server has the model %.100q.", model)}
}

// Models lists the names of models that stand in the rows, sorted. Patterns name none.
func (s *Set) Models() []string {
	var out []string
	for i := range s.rows {
		for _, t := range s.rows[i].routes {
			if !strings.Contains(t.pattern, "*") {
				out = append(out, t.pattern)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
