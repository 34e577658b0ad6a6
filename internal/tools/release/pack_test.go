package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// Archives have their files in the order given, with the date given, and a second one is the same.
func TestArchives(t *testing.T) {
	date := time.Date(2024, 2, 29, 12, 0, 1, 0, time.UTC) // an odd second, which the old format of zip can't hold
	files := []file{{"a/gateway.exe", 0o755, bytes.Repeat([]byte("x"), 100_000)}, {"a/LICENSE", 0o644, []byte("text")}}
	check := func(t *testing.T, i int, name string, mode os.FileMode, at time.Time, data []byte) {
		t.Helper()
		if want := files[i]; name != want.name || mode != want.mode || !at.Equal(date) || !bytes.Equal(data, want.data) {
			t.Errorf("file %d is %s, mode %o, of %s, %d bytes, want %s, mode %o, of %s, %d bytes", i, name, mode, at, len(data), want.name, want.mode, date, len(want.data))
		}
	}
	for name, write := range map[string]func(io.Writer, []file, time.Time) error{"tar": writeTar, "zip": writeZip} {
		t.Run(name, func(t *testing.T) {
			var first, second bytes.Buffer
			if err := errors.Join(write(&first, files, date), write(&second, files, date)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first.Bytes(), second.Bytes()) {
				t.Error("the second archive has other bytes")
			}
			n := 0
			if name == "zip" {
				r, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
				if err != nil {
					t.Fatal(err)
				}
				for i, f := range r.File {
					part, err := f.Open()
					if err != nil {
						t.Fatal(err)
					}
					check(t, i, f.Name, f.Mode(), f.Modified, all(t, part))
					n++
				}
			} else {
				z, err := gzip.NewReader(&first)
				if err != nil {
					t.Fatal(err)
				}
				r := tar.NewReader(z)
				for h, err := r.Next(); err == nil; h, err = r.Next() {
					check(t, n, h.Name, h.FileInfo().Mode(), h.ModTime, all(t, r))
					n++
				}
			}
			if n != len(files) {
				t.Errorf("the archive has %d files, want %d", n, len(files))
			}
		})
	}
}

func all(t *testing.T, r io.Reader) []byte {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
