package upstream

import (
	"encoding/json"
	"slices"

	"github.com/toolgate/toolgate/internal/chat"
)

// draft is a request on its way to a provider: the client's and its edits, which it changes without touching those
// that it was made of.
type draft struct {
	req   *chat.Request
	edits chat.Edits
}

// value is what the provider would get as that member; nil for nothing. Tools of the gateway's are not in it.
func (d *draft) value(name string) json.RawMessage {
	own := d.req.Member(name)
	if own != nil && slices.Contains(d.edits.Drop, name) {
		return nil
	}
	if i := find(d.edits.Set, name); i >= 0 {
		return d.edits.Set[i].Value
	}
	if i := find(d.edits.Default, name); own == nil && i >= 0 {
		return d.edits.Default[i].Value
	}
	return own
}

// set makes value what the provider gets.
func (d *draft) set(name string, value json.RawMessage) {
	d.edits.Drop = without(d.edits.Drop, func(s string) bool { return s == name })
	d.edits.Default = without(d.edits.Default, named(name))
	pair := chat.Pair{Name: name, Value: value}
	if i := find(d.edits.Set, name); i >= 0 {
		d.edits.Set = slices.Clone(d.edits.Set)
		d.edits.Set[i] = pair
		return
	}
	d.edits.Set = append(slices.Clip(d.edits.Set), pair)
}

// drop takes a member out, whoever it came from.
func (d *draft) drop(name string) {
	d.edits.Default = without(d.edits.Default, named(name))
	d.edits.Set = without(d.edits.Set, named(name))
	if d.req.Member(name) != nil && !slices.Contains(d.edits.Drop, name) {
		d.edits.Drop = append(slices.Clip(d.edits.Drop), name)
	}
}

func named(name string) func(chat.Pair) bool {
	return func(p chat.Pair) bool { return p.Name == name }
}

func find(pairs []chat.Pair, name string) int { return slices.IndexFunc(pairs, named(name)) }

// without is list without some of its items; list itself stays as it is.
func without[T any](list []T, out func(T) bool) []T {
	if !slices.ContainsFunc(list, out) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), out)
}
