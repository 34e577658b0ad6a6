package registry

import (
	"bytes"
	"iter"
	"slices"
	"sync"

	"github.com/toolgate/toolgate/internal/globs"
	"github.com/toolgate/toolgate/internal/suggest"
	"github.com/toolgate/toolgate/internal/tool"
)

// View is what one caller and model see of a Set at one time, and all that they can call. Immutable.
type View struct {
	set    *Set
	caller map[string]any
	list   []*Tool
	byName map[string]*Tool
	may    map[string]*Tool // what caller and model may use, some of which the request may have left out
	joined []byte           // the declarations, joined by commas
	wary   bool             // a tool of it is confirmed after untrusted
	taints bool             // a tool of it is untrusted

	identity func() string // made once
}

// View is what a caller with those fields sees where all lists choose a tool. key, if it is not nil, tells caller and
// model apart and lets the view be kept; it must be from a configured, bounded set.
func (s *Set) View(key any, caller map[string]any, lists ...globs.List) *View {
	now := s.now.Load()
	if key != nil {
		if v, ok := now.views.Load(key); ok {
			return v.(*View)
		}
	}
	v := s.newView(caller, func(t *Tool) bool {
		for _, l := range lists {
			if !l.Has(t.ID) {
				return false
			}
		}
		for _, field := range t.callerFields {
			if caller[field] == nil {
				return false
			}
		}
		return true
	}, now.list)
	v.may = v.byName
	if key != nil {
		now.views.Store(key, v)
	}
	return v
}

func (s *Set) newView(caller map[string]any, has func(*Tool) bool, from []*Tool) *View {
	v := &View{set: s, caller: caller, byName: map[string]*Tool{}}
	v.identity = sync.OnceValue(func() string { return string(tool.EncodeJSON(caller)) })
	for _, t := range from {
		if has(t) {
			v.list = append(v.list, t)
			v.byName[t.Name] = t
			v.wary = v.wary || t.ConfirmAfter() != ""
			v.taints = v.taints || t.Untrusted()
		}
	}
	v.joined = join(v.list)
	return v
}

func join(list []*Tool) []byte {
	declarations := make([][]byte, len(list))
	for i, t := range list {
		declarations[i] = t.declaration
	}
	return bytes.Join(declarations, []byte(","))
}

// Narrow is the view with only those tools that the list chooses. It never adds one.
func (v *View) Narrow(l globs.List) *View {
	return v.narrow(func(t *Tool) bool { return l.Has(t.ID) || l.Has(t.Name) })
}

// Without is the view without tools whose name the client declares itself.
func (v *View) Without(declares func(string) bool) *View {
	for _, t := range v.list {
		if declares(t.Name) {
			return v.narrow(func(t *Tool) bool { return !declares(t.Name) })
		}
	}
	return v
}

func (v *View) narrow(has func(*Tool) bool) *View {
	n := v.set.newView(v.caller, has, v.list)
	n.may = v.may
	return n
}

// Identity tells the view's caller from one with other fields.
func (v *View) Identity() string { return v.identity() }

// Len is how many tools the view has.
func (v *View) Len() int { return len(v.list) }

// Wary says whether a tool of the view is confirmed only once an untrusted one has answered: what the conversation holds
// from earlier requests then matters.
func (v *View) Wary() bool { return v.wary }

// Taints says whether what a run with the view answers may be tainted: a tool of it is untrusted, or it is wary of what
// was said before.
func (v *View) Taints() bool { return v.taints || v.wary }

// Tools are the view's tools in the order in which they are attached.
func (v *View) Tools() []*Tool { return v.list }

// Declarations are the tools as they stand in a request, joined by commas.
func (v *View) Declarations() []byte { return v.joined }

// Names are the names of the view's tools, in the order in which they are attached.
func (v *View) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, t := range v.list {
			if !yield(t.Name) {
				return
			}
		}
	}
}

// nearest are the names most like one that is not there; where none is like it, the first ones.
func (v *View) nearest(name string) []string {
	names := slices.Collect(v.Names())
	if near := suggest.Nearest(name, names, 3); len(near) > 0 {
		return near
	}
	return names[:min(len(names), 10)]
}
