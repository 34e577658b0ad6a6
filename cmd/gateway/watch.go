package main

import (
	"crypto/sha256"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/toolgate/toolgate/internal/config"
)

// watcher looks after the files of a configuration. It is for one goroutine.
//
// Folders are watched rather than files: editors put a new file in the place of the old one, and in a volume of
// Kubernetes gateway.yaml leads through the link ..data, which is replaced. What happens in them only gives occasion to
// look; what is read says whether something has changed.
type watcher struct {
	log    *slog.Logger
	notify *fsnotify.Watcher // nil where the system gives none: then looking now and then has to do
	dirs   map[string]bool   // that are watched

	base map[string]config.Sum // of the files as the configuration has them
	seen map[string]seen
}

// seen is a file as it was looked at last.
type seen struct {
	info fs.FileInfo
	at   time.Time
	sum  config.Sum
}

func newWatcher(log *slog.Logger) *watcher {
	w := &watcher{log: log, dirs: map[string]bool{}}
	var err error
	if w.notify, err = fsnotify.NewWatcher(); err != nil {
		w.notify = nil
		log.Warn("the configuration's folder can't be watched: its files are looked at every few seconds", slog.Any("err", err))
	}
	return w
}

func (w *watcher) close() {
	if w.notify != nil {
		_ = w.notify.Close() // it always succeeds
	}
}

// events and errors are nil channels without notify.
func (w *watcher) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

func (w *watcher) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// follow makes the files that a configuration was read from the ones to look after.
func (w *watcher) follow(uses map[string]config.Sum) {
	w.base, w.seen = maps.Clone(uses), map[string]seen{}
	for path, sum := range uses {
		if sum == (config.Sum{}) { // it was of no use, such as too large: as it is now it is known
			w.base[path] = w.sum(path)
		}
	}
	w.watch()
}

// watch watches the folders of the files, and of those that they are links to.
func (w *watcher) watch() {
	if w.notify == nil {
		return
	}
	dirs := map[string]bool{}
	for path := range w.base {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			continue
		}
		dirs[filepath.Dir(path)] = true
		if target, err := filepath.EvalSymlinks(path); err == nil {
			dirs[filepath.Dir(target)] = true
		}
	}
	for dir := range w.dirs {
		if !dirs[dir] {
			_ = w.notify.Remove(dir) // fails where the folder is gone, and the watch with it
		}
	}
	for dir := range dirs {
		if err := w.notify.Add(dir); err != nil { // a folder that is watched already is so once
			delete(dirs, dir)
			w.log.Warn("a folder can't be watched: its files are looked at every few seconds", slog.String("folder", dir), slog.Any("err", err))
		}
	}
	w.dirs = dirs
}

// look is what the files hold now, and whether that differs from what the configuration was read from.
func (w *watcher) look() (now map[string]config.Sum, changed bool) {
	now = make(map[string]config.Sum, len(w.base))
	for path := range w.base {
		now[path] = w.sum(path)
	}
	return now, !maps.Equal(now, w.base)
}

// fresh is the time within which a file may be changed again without its time of change showing that.
const fresh = 2 * time.Second

// sum is that of the file at path. One that looks as it did is not read again.
func (w *watcher) sum(path string) config.Sum {
	info, err := os.Stat(path)
	if err != nil {
		return config.Sum{}
	}
	if !info.Mode().IsRegular() { // a pipe gives what it has once
		return w.base[path]
	}
	s, known := w.seen[path]
	if known && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) && s.at.Sub(info.ModTime()) > fresh {
		return s.sum
	}
	s = seen{info: info, at: time.Now()}
	if s.sum, err = sumOf(path); err != nil {
		return config.Sum{}
	}
	w.seen[path] = s
	return s.sum
}

func sumOf(path string) (config.Sum, error) {
	f, err := os.Open(path)
	if err != nil {
		return config.Sum{}, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return config.Sum{}, err
	}
	return config.Sum(h.Sum(nil)), nil
}
