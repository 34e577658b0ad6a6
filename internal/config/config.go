// Package config reads the gateway's YAML file into values that know their place, so that every fault of the file is
// reported with its line, its column, its dotted path and what would be right, all of them at once. It knows no kind
// of tool and no key: what a key means is the business of the struct that is decoded from it.
//
// The way of a file: Load or Parse makes a tree of Nodes (anchors, merge keys and ${...} resolved), Decode fills
// structs from it, and all on the way report to the File, whose Problems decide whether the file is good.
//
// Plain scalars are read by the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): true and false
// (not yes, on, off) are booleans; null, ~ and nothing are null; 0123 is the number 123, 0o17 is 15, 0x1F is 31, 1e3
// is a number, 1_000 is a text. Two things differ: .inf and .nan are texts, as JSON has no such numbers, and where a
// text is wanted, a number or boolean gives its own spelling: `version: 1.10` is "1.10".
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml/token"
)

// MaxBytes is the size up to which a file is read.
const MaxBytes = 4 << 20

// File is a configuration file with everything that was found wrong with it so far. It is for one goroutine.
type File struct {
	name     string
	lookup   func(string) (string, bool)
	root     *Node
	problems []Problem
	warnings []Problem
	faulty   map[place]bool // where a value is known to be bad: what else is said of it is noise
	misspelt map[place]bool // keys that an unknown one beside their place was taken for
	secrets  map[string]bool
	active   map[any]bool // pointers whose DecodeNode is running
	used     map[string]Sum
}

type place struct{ file, path string }

// document is one of the texts that a File was made from: its own, or a fragment.
type document struct {
	file       *File
	name       string // for messages
	dir        string // what relative paths in it start from
	substitute bool
	data       []byte               // the text
	starts     []int                // of its lines; nil until wanted
	moved      map[*token.Token]Pos // see locate
}

// Load reads and parses the file at path. lookup is os.LookupEnv or a stand-in; the files of ${file:PATH} are read
// relative to the folder of path. It never fails: what is wrong is in the Problems of the File.
func Load(path string, lookup func(string) (string, bool)) *File {
	data, err := ReadFile(path, MaxBytes)
	if err != nil {
		f := newFile(path, lookup)
		f.use(path, nil)
		f.report(Problem{File: path, Pos: Pos{1, 1}, Message: "the file can't be read: " + err.Error()})
		return f
	}
	f := Parse(path, filepath.Dir(path), data, lookup)
	f.use(path, data)
	return f
}

// Parse is Load from bytes; name is for messages and dir is where relative paths start.
func Parse(name, dir string, data []byte, lookup func(string) (string, bool)) *File {
	f := newFile(name, lookup)
	d := &document{file: f, name: name, dir: dir, substitute: true}
	f.root = d.read(data)
	if f.root.Kind() == Null && f.root != nil {
		f.root = d.node(nil, "", f.root.pos, Mapping)
	}
	if f.root != nil {
		f.addCredentials(f.root, nil)
	}
	return f
}

func newFile(name string, lookup func(string) (string, bool)) *File {
	return &File{name: name, lookup: lookup, faulty: map[place]bool{}, misspelt: map[place]bool{}, secrets: map[string]bool{}, active: map[any]bool{}, used: map[string]Sum{}}
}

// Root is the whole document, or nil when it could not be parsed. An empty file is an empty mapping.
func (f *File) Root() *Node { return f.root }

// Decode decodes the whole document into v, a pointer to a struct; see Node.Decode. Where the document could not be
// parsed, v gets its defaults.
func (f *File) Decode(v any) {
	f.root.Decode(v)
}

// ErrTooLarge is an error of ReadFile for a file over its limit.
var ErrTooLarge = errors.New("it is too large")

// ReadFile is the content of a regular or other readable file of up to limit bytes. Its errors do without the path, which
// the message has already.
func ReadFile(path string, limit Size) ([]byte, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	defer r.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, errors.New(reason(err))
	}
	if int64(len(data)) > int64(limit) {
		return nil, fmt.Errorf("%w: more than %s", ErrTooLarge, limit)
	}
	return data, nil
}

// reason is an error of the file system without the operation and path.
func reason(err error) string {
	if errors.Is(err, fs.ErrPermission) && os.Getuid() >= 0 {
		return fmt.Sprintf("permission denied: it has to be readable for user %d, as whom this runs", os.Getuid())
	}
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// sortedKeys is the keys of a set in order.
func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
