package policy

import "testing"

// builtin returns the newest version of a built-in policy.
func builtin(name string) Policy {
	p, ok := Builtin(name)
	if !ok {
		panic("no policy " + name)
	}
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
