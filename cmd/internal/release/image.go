package main

import (
	"bytes"
	_ "embed"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

//go:embed files/Containerfile
var containerfile []byte

// imageUser is the number of the user of an image, and of its group.
const imageUser = 65532

// image writes what an image for containers is built of: its Containerfile, and the whole
// file system of an architecture.
func (r *release) image(p platform, programs []string, docs []file) error {
	files, err := programFiles(programs, "usr/bin")
	if err != nil {
		return err
	}
	for _, f := range docs {
		if f.path == "LICENSE" || f.path == "THIRD-PARTY-LICENSES.txt" {
			files = append(files, below("usr/share/doc/nexus", []file{f})...)
		}
	}
	files = append(files,
		page("etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/:/nonexistent\nnexus:x:%d:%d:Nexus:/var/lib/nexus:/nonexistent\n", imageUser, imageUser)),
		page("etc/group", fmt.Appendf(nil, "root:x:0:\nnexus:x:%d:\n", imageUser)),
		page("etc/ssl/certs/ca-certificates.crt", authorities()),
		file{path: "tmp/", mode: 0o1777},
		file{path: "var/lib/nexus/", mode: 0o700, owner: imageUser},
	)
	packed, err := pack(files, r.date)
	if err != nil {
		return err
	}
	if err := r.write("container/rootfs_"+p.arch+".tar.gz", packed); err != nil {
		return err
	}
	return r.write("container/Containerfile", bytes.ReplaceAll(containerfile, []byte("@VERSION@"), []byte(r.version)))
}

// authorities are the roots of Mozilla, as PEM: an image has no others, and models are asked
// over https. A root that Mozilla trusts with limits alone is left out.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return b.Bytes()
}
