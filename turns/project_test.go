package turns

import "testing"

func TestAProjectIsNamedByItsRemoteItsEndOrAFolder(t *testing.T) {
	meta := Raw(`{"cwd":"/home/a/wt","project":{"remote":"github.com/acme/shelf","root":"/home/a/shelf","dirs":["/home/a/shelf/sub"]}}`)
	p := ProjectOf(meta)
	if p.Name() != "github.com/acme/shelf" {
		t.Fatalf("name %q", p.Name())
	}
	for want, is := range map[string]bool{
		"github.com/acme/shelf": true, "acme/shelf": true, "shelf": true, "shelf.git": true, "/home/a/shelf": true, "/home/a/shelf/sub": true, "/home/a/wt/": true, "/home/a": true,
		"helf": false, "acme": false, "": false, "/home/b": false, "other.org/acme/shelf": false, "/home/a/shel": false,
	} {
		if got := p.Has(p.Name(), want); got != is {
			t.Errorf("%q: %v, want %v", want, got, is)
		}
	}
	if p := ProjectOf(Raw(`{"cwd":"/srv/x","project":7}`)); p.Name() != "/srv/x" {
		t.Errorf("a session without a repository is of %q, want its folder", p.Name())
	}
	if p := ProjectOf(Raw(`{"project":{"remote":5}}`)); p.Name() != "" {
		t.Errorf("a project of another kind gives %q", p.Name())
	}
	if !(Project{}).Has("mine", "mine") {
		t.Error("a project that a person named is not found by that name")
	}
}

func TestARemoteHasOneNameAndNoCredentials(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.com/acme/shelf.git":                  "github.com/acme/shelf",
		"https://user:ghp_secret@GitHub.com/acme/shelf.git/": "github.com/acme/shelf",
		"https://ghp_secret@github.com:443/acme/shelf":       "github.com/acme/shelf",
		"git@github.com:acme/shelf.git":                      "github.com/acme/shelf",
		"ssh://git@github.com:22/acme/shelf.git":             "github.com/acme/shelf",
		"ssh://git@git.example.org:2222/acme/Shelf":          "git.example.org:2222/acme/Shelf",
		"https://x/y?access_token=s":                         "x/y",
		"https://a:p@ss@host/y":                              "host/y",
		"/srv/git/shelf.git":                                 "",
		"../shelf":                                           "",
		"file:///srv/git/shelf.git":                          "",
		"C:/git/shelf":                                       "",
		"":                                                   "",
		"oauth2:ghp_secret@github.com:acme/x":                "",
		"https://bob:ab/cd@host/x":                           "",
	} {
		if got := Remote(url); got != want {
			t.Errorf("Remote(%q) = %q, want %q", url, got, want)
		}
	}
	for url, want := range map[string]string{
		"https://user:ghp_secret@github.com/acme/shelf.git": "https://github.com/acme/shelf.git",
		"https://a:p@ss@host":                               "https://host",
		"https://h/p?token=s":                               "https://h/p",
		"git@github.com:acme/shelf.git":                     "git@github.com:acme/shelf.git",
	} {
		if got := WithoutCredentials(url); got != want {
			t.Errorf("WithoutCredentials(%q) = %q, want %q", url, got, want)
		}
	}
}
