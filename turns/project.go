package turns

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Project says which repository a session worked in, as importers write it into its meta. A path
// alone loses sessions: a folder is moved, a worktree has another, a clone a third. The remote is
// the same for all of them.
type Project struct {
	Remote string   `json:"remote,omitempty"` // host and path, such as github.com/acme/shelf; no credentials
	Root   string   `json:"root,omitempty"`   // the folder of the main worktree
	Dirs   []string `json:"dirs,omitempty"`   // the folders that were seen
}

// ProjectOf returns the member "project" of a session's meta. A meta belongs to the client and
// may be anything; what is no project is none. Without the member, the session's folder is the
// project's.
func ProjectOf(meta Raw) (p Project) {
	var m struct {
		Project Raw `json:"project"`
	}
	if meta.Kind() == '{' && json.Unmarshal(meta, &m) == nil && m.Project.Kind() == '{' {
		if json.Unmarshal(m.Project, &p) != nil {
			p = Project{}
		}
	}
	if cwd := WorkContextOf(meta).Cwd; cwd != "" && !slices.Contains(p.Dirs, cwd) {
		p.Dirs = append(p.Dirs, cwd)
	}
	return p
}

// Name is what the project is called: its remote, else its root, else the folder; "" for none.
func (p Project) Name() string {
	switch {
	case p.Remote != "":
		return p.Remote
	case p.Root != "":
		return p.Root
	case len(p.Dirs) > 0:
		return p.Dirs[0]
	}
	return ""
}

// Has reports whether a person who says want means the project, which goes by name: the name, what
// follows a slash in it, or a folder of it, or one below.
func (p Project) Has(name, want string) bool {
	want = strings.TrimSuffix(strings.TrimRight(want, "/"), ".git")
	if want == "" {
		return false
	}
	if name == want || strings.HasSuffix(name, "/"+want) {
		return true
	}
	return strings.HasPrefix(want, "/") && (p.Root == want || slices.ContainsFunc(p.Dirs, func(dir string) bool {
		return WorkContext{Cwd: dir}.IsIn(want)
	}))
}

// Remote returns the name of a repository by a URL of a remote, as git has it: host and path,
// without scheme, user, password, the default port and .git, the host in small letters. So an
// ssh clone and an https clone have one name. "" for what names no host: a path of the machine.
func Remote(url string) string {
	rest, isURL := url, false
	if scheme, after, ok := strings.Cut(url, "://"); ok {
		if scheme == "file" {
			return ""
		}
		rest, isURL = after, true
	}
	host, path, ok := strings.Cut(rest, "/")
	if !isURL { // host:path, where no slash stands before the colon
		if host, path, ok = strings.Cut(rest, ":"); !ok || strings.Contains(host, "/") || len(host) < 2 {
			return ""
		}
	}
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	if name, port, ok := strings.Cut(host, ":"); ok && slices.Contains([]string{"22", "80", "443", "9418"}, port) {
		host = name
	}
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if !ok || host == "" || path == "" || strings.Contains(path, "@") || // what is before it may be a password
		strings.ContainsFunc(host+path, isControl) {
		return ""
	}
	return host + "/" + path
}

// WithoutCredentials returns a URL without a user and a password. One of the form host:path
// has no password, and stays.
func WithoutCredentials(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	host, path, slash := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if slash {
		host += "/"
	}
	path, _, _ = strings.Cut(path, "?")
	return scheme + "://" + host + path
}
