package main

import (
	"bytes"
	"embed"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"

	"nexus/cmd/internal/service"
)

//go:embed files/nexusd.toml
var configuration []byte

//go:embed files/postinst files/prerm files/postrm
var scripts embed.FS

// deb writes the package of Debian.
func (r *release) deb(p platform, programs []string, docs []file) error {
	tmp, err := os.MkdirTemp("", "nexus-deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	list, err := programFiles(programs, "usr/bin")
	if err != nil {
		return err
	}
	list = append(list, below("usr/share", r.manual)...)
	list = append(list, units("usr/lib/systemd")...)
	for _, f := range docs {
		if f.path == "LICENSE" {
			f.path = "copyright"
		}
		list = append(list, below("usr/share/doc/nexus", []file{f})...)
	}
	list = append(list, page(strings.TrimPrefix(service.SystemConfig, "/"), configuration))
	info := &nfpm.Info{
		Name: "nexus", Arch: p.arch, Platform: "linux", Version: r.version, Section: "database", Priority: "optional",
		Maintainer:  "Nexus maintainers <maintainers@users.noreply.a-seed-d77d2fe1.example>",
		Description: "ledger for the conversations of AI agents\nnexusd keeps every turn of a conversation, compactions included, once and\nunchanged. ledgerctl imports transcripts of agents, finds, prices and exports\nthem, forks sessions and checks what is stored.",
		License:     "Apache-2.0", MTime: r.date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Depends: []string{"passwd"}, Recommends: []string{"ca-certificates"}, Suggests: []string{"git", "less"},
		},
	}
	for _, f := range list {
		if strings.HasPrefix(f.path, "usr/share/man/") {
			if f.data, err = zipped(f.data); err != nil {
				return err
			}
			f.path += ".gz"
		}
		at, err := stage(tmp, f)
		if err != nil {
			return err
		}
		kind := files.TypeFile
		if "/"+f.path == service.SystemConfig {
			kind = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, &files.Content{Source: at, Destination: "/" + f.path, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date}})
	}
	for name, to := range map[string]*string{"postinst": &info.Scripts.PostInstall, "prerm": &info.Scripts.PreRemove, "postrm": &info.Scripts.PostRemove} {
		text, err := scripts.ReadFile("files/" + name)
		if err == nil {
			*to, err = stage(tmp, file{path: "DEBIAN/" + name, mode: 0o755, data: text})
		}
		if err != nil {
			return err
		}
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.Validate(info); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := deb.Default.Package(info, &b); err != nil {
		return err
	}
	return r.write(deb.Default.ConventionalFileName(info), b.Bytes())
}

// stage writes a file below a folder, and returns its path there.
func stage(dir string, f file) (string, error) {
	at := filepath.Join(dir, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	return at, os.WriteFile(at, f.data, f.mode)
}
