package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	install   = flag.Bool("install", false, "build two releases and install them in a copy of this Debian; needs root")
	container = flag.Bool("container", false, "build the image and run it; needs buildah or podman")
)

// releaseOf makes a release of this platform's Linux alone, of the checkout as it is.
func releaseOf(t *testing.T, version string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := run(t.Context(), []string{"-dirty", "-platforms", "linux/" + runtime.GOARCH, version, dir}, t.Output()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// transcript names a session of an agent: a real one where there is any.
func transcript() string {
	if found, _ := filepath.Glob("../../../../shared/data/claude-code-git-sync/*.jsonl"); len(found) > 0 {
		return found[0]
	}
	return "../../ledgerctl/internal/quickstart/session.jsonl"
}

// TestPackageOfDebian installs a package, uses it, upgrades it and purges it: once with nexusd
// as a process (testdata/install.sh), once with its units under systemd (testdata/systemd.sh).
// It does so in an overlay of this machine's files, which is thrown away, with processes and a
// network of its own.
func TestPackageOfDebian(t *testing.T) {
	if !*install {
		t.Skip("builds two releases: -install")
	}
	if _, err := exec.LookPath("dpkg"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root on a Debian")
	}
	older := filepath.Join(releaseOf(t, "0.0.1"), "nexus_0.0.1_"+runtime.GOARCH+".deb")
	newer := filepath.Join(releaseOf(t, "0.0.2"), "nexus_0.0.2_"+runtime.GOARCH+".deb")
	for _, script := range []string{"install.sh", "systemd.sh"} {
		t.Run(script, func(t *testing.T) {
			cgroup := ""
			if script == "systemd.sh" {
				if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
					t.Skip("there is no systemd")
				}
				cgroup = newCgroup(t)
			}
			layers := t.TempDir()
			for name, from := range map[string]string{script: "testdata/" + script, "common.sh": "testdata/common.sh", "old.deb": older, "new.deb": newer, "transcript.jsonl": transcript()} {
				data, err := os.ReadFile(from)
				if err == nil {
					_, err = stage(layers, file{path: "upper/nexus-release/" + name, mode: 0o644, data: data})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			here, err := filepath.Abs("testdata")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", filepath.Join(here, "enter.sh"), layers, script, cgroup, here)
			if cgroup == "" {
				c.Args[len(c.Args)-1] = ""
			}
			said, err := c.CombinedOutput()
			if cgroup != "" {
				more, _ := os.ReadFile(filepath.Join(layers, "upper", "nexus-release", "output"))
				said = append(said, more...)
			}
			t.Logf("%s", said)
			if !strings.HasSuffix(string(said), "== passed\n") {
				t.Error(err)
			}
		})
	}
}

// newCgroup makes a control group, and removes it when the test has ended.
func newCgroup(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("findmnt", "--noheadings", "--output", "TARGET", "--types", "cgroup2").Output()
	if err != nil {
		t.Skip("there are no control groups of version 2")
	}
	first, _, _ := strings.Cut(string(out), "\n")
	dir, err := os.MkdirTemp(first, "nexus-release-")
	if err != nil {
		t.Skip("no control group can be made: ", err)
	}
	t.Cleanup(func() {
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(50 * time.Millisecond) { // the kernel ends its processes
			_ = exec.Command("find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
		t.Errorf("%s stays", dir)
	})
	return dir
}
