package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"maps"
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
			if _, err := os.Stat("/lib/systemd/systemd"); err != nil && script == "systemd.sh" {
				t.Skip("there is no systemd")
			}
			inACopy(t, script, map[string]string{"old.deb": older, "new.deb": newer, "transcript.jsonl": transcript()})
		})
	}
}

// TestImage builds the image with podman and runs it: testdata/container.sh.
func TestImage(t *testing.T) {
	if !*container {
		t.Skip("builds a release: -container")
	}
	if _, err := exec.LookPath("podman"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and podman")
	}
	dir := filepath.Join(releaseOf(t, "0.0.1"), "container")
	rootfs := "rootfs_" + runtime.GOARCH + ".tar.gz"
	inACopy(t, "container.sh", map[string]string{"Containerfile": filepath.Join(dir, "Containerfile"), rootfs: filepath.Join(dir, rootfs), "transcript.jsonl": transcript()})
}

// inACopy runs a script of testdata in /nexus-release of a copy of this machine's files, where
// files are, by their names.
func inACopy(t *testing.T, script string, files map[string]string) {
	t.Helper()
	files = maps.Clone(files)
	for _, name := range []string{script, "common.sh"} {
		files[name] = "testdata/" + name
	}
	layers := t.TempDir()
	for name, from := range files {
		data, err := os.ReadFile(from)
		if err == nil {
			_, err = stage(layers, file{path: "upper/nexus-release/" + name, mode: 0o644, data: data})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	enter, err := filepath.Abs("testdata/enter.sh")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", enter, layers, script, newCgroup(t)).CombinedOutput()
	if output, missing := os.ReadFile(filepath.Join(layers, "upper", "nexus-release", "output")); missing == nil { // of systemd.sh
		said = append(said, output...)
	}
	t.Logf("%s", said)
	if !strings.HasSuffix(string(said), "== passed\n") {
		t.Errorf("%s did not pass: %v", script, err)
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
