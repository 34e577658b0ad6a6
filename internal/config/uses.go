package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// Sum tells whether what a file holds is still the same. The zero Sum is that of a file that can't be read.
type Sum [sha256.Size]byte

// SumOf is the Sum of a content.
func SumOf(data []byte) Sum { return sha256.Sum256(data) }

// Uses are the files that the configuration was made from, itself among them, by absolute path, with what was read of
// each. One that could not be read is there too: the configuration may be good once it can.
func (f *File) Uses() map[string]Sum { return maps.Clone(f.used) }

// Uses notes that the file at path, as it was opened, is a part of the configuration. data is what was read of it, nil
// where it can't be read.
func (n *Node) Uses(path string, data []byte) {
	if n != nil {
		n.doc.file.use(path, data)
	}
}

func (f *File) use(path string, data []byte) {
	full, err := filepath.Abs(path)
	if err != nil { // there is no working folder
		return
	}
	var sum Sum
	if data != nil {
		sum = SumOf(data)
	}
	f.used[full] = sum
}

// Fingerprint is the same for configurations that say the same, but for what stands under some keys of the document. It
// is of the values, and of the other files that it was made from.
func (f *File) Fingerprint(leaveOut ...string) string {
	h := sha256.New()
	for _, key := range f.root.Keys() {
		if !slices.Contains(leaveOut, key) {
			_, _ = fmt.Fprintf(h, "%q:%s\n", key, f.root.Get(key).JSON()) // a hash takes everything
		}
	}
	own, _ := filepath.Abs(f.name) // nothing has that name where there is no working folder
	for _, path := range slices.Sorted(maps.Keys(f.used)) {
		if path != own {
			sum := f.used[path]
			_, _ = h.Write(sum[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
