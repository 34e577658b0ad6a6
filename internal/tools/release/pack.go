package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// papers go into every archive, beside the binary.
var papers = []string{"CHANGELOG.md", "LICENSE", "README.md"}

// file is one of an archive.
type file struct {
	name string // with slashes
	mode os.FileMode
	data []byte
}

// pack makes the folder dist anew: archives, the bill of materials, SHA256SUMS.
func (r release) pack(dist string) error {
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil { //nolint:gosec // it is given away
		return err
	}
	made := map[string][]byte{}
	for _, p := range r.platforms {
		name, data, err := r.archive(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		made[name] = data
	}
	bom, err := r.sbom()
	if err != nil {
		return fmt.Errorf("sbom: %w", err)
	}
	made[r.name()+".cdx.json"] = bom
	var sums strings.Builder
	names := make([]string, 0, len(made))
	for name := range made {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(made[name]), name)
	}
	made["SHA256SUMS"] = []byte(sums.String()) // the last, so that a folder without it is known for unfinished
	for _, name := range append(names, "SHA256SUMS") {
		if err := os.WriteFile(filepath.Join(dist, name), made[name], 0o644); err != nil { //nolint:gosec // it is given away
			return err
		}
	}
	fmt.Print(sums.String())
	return nil
}

// name is what all files of the release begin with.
func (r release) name() string { return "toolgate-" + r.version }

// archive is a platform's: its name and its bytes.
func (r release) archive(p platform) (name string, data []byte, err error) {
	if err := r.built(p); err != nil {
		return "", nil, err
	}
	folder := r.name() + "-" + p.system + "-" + p.arch
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return "", nil, err
	}
	files := []file{{path.Join(folder, p.program("gateway")), 0o755, binary}}
	for _, paper := range papers {
		text, err := os.ReadFile(filepath.Join(r.root, paper))
		if err != nil {
			return "", nil, err
		}
		files = append(files, file{path.Join(folder, paper), 0o644, text})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	name, write := folder+".tar.gz", writeTar
	if p.system == "windows" {
		name, write = folder+".zip", writeZip
	}
	var out bytes.Buffer
	err = write(&out, files, r.date)
	return name, out.Bytes(), err
}

// writeTar writes a compressed tar. Its files belong to nobody by name, and to root where root unpacks them.
func writeTar(w io.Writer, files []file, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: date, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func writeZip(w io.Writer, files []file, date time.Time) error {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode)
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}
